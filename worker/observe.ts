import { defaultPayloadConverter } from '@temporalio/common';
import type { ActivityInterceptorsFactory, WorkerOptions } from '@temporalio/worker';
import type { Registry } from 'prom-client';
import { logSubject } from '../shared/domain/log-subject.ts';
import { readTraceParent } from '../shared/domain/trace-parent.ts';
import { type LogFields, withLogFields } from '../shared/log-context.ts';
import { contextHeaders, type EndedRun, type LogHeader } from '../shared/temporal-headers.ts';
import type { Tracing } from '../shared/tracing/tracing.ts';
import { measureActivities } from './measure-activities.ts';

/** What stands around the tasks of a worker, for those who look at it. */
export type Observed = Required<Pick<WorkerOptions, 'interceptors' | 'sinks'>>;

/**
 * Lets every line that an activity logs say for which run and payment it works, and makes spans where that is wanted.
 * The sink is there in any case: a run may belong to a trace of an api that has tracing on.
 */
export function observe(tracing: Tracing | undefined, registry: Registry): Observed {
  return {
    interceptors: {
      activity: [measureActivities(registry), ...(tracing ? [tracing.activityInterceptors] : []), tellActivity],
    },
    sinks: {
      traces: {
        runEnded: { fn: (_info: unknown, run: EndedRun) => tracing?.noteRun(run), callDuringReplay: false },
      },
    },
  };
}

const tellActivity: ActivityInterceptorsFactory = (context) => ({
  inbound: {
    execute(input, next) {
      const { activityType, attempt, workflowExecution } = context.info;
      const workflowId = workflowExecution?.workflowId ?? '';
      const { [contextHeaders.log]: log, [contextHeaders.trace]: parent } = input.headers;
      const fields: LogFields = {
        ...{ workflow_id: workflowId, activity: activityType, attempt },
        ...logSubject(workflowId),
        ...(log && defaultPayloadConverter.fromPayload<LogHeader>(log)),
        ...(parent && traceIdOf(defaultPayloadConverter.fromPayload<{ traceparent?: string }>(parent))),
      };
      return withLogFields(fields, () => next(input));
    },
  },
});

function traceIdOf({ traceparent }: { traceparent?: string }): LogFields {
  const traceId = readTraceParent(traceparent)?.traceId;
  return traceId === undefined ? {} : { trace_id: traceId };
}
