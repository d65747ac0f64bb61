import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import {
  ContinueAsNew,
  isCancellation,
  proxySinks,
  type Sinks,
  type WorkflowInterceptorsFactory,
  workflowInfo,
} from '@temporalio/workflow';
import { logSubject } from '../shared/domain/log-subject.ts';
import { readTraceParent, type TraceParent, writeTraceParent } from '../shared/domain/trace-parent.ts';
import { searchAttributes } from '../shared/temporal.ts';
import { contextHeaders, type EndedRun, type LogHeader } from '../shared/temporal-headers.ts';

/** What a worker that keeps traces is told; one that keeps none takes the same calls and does nothing. */
interface TraceSinks extends Sinks {
  traces: { runEnded(run: EndedRun): void };
}

/**
 * Hands on to activities, children and successors to which trace and request a run belongs. Only headers: no timer, no
 * wait, no random number, so that histories from before, and with tracing on and off, replay alike.
 *
 * The interceptors of @temporalio/interceptors-opentelemetry are not used inside workflows: they need OpenTelemetry in the
 * sandbox, a second copy for each run in memory, and wait where no code waited when older histories were made.
 */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let context: Context = {};
  const withContext = <I extends { readonly headers: Headers }>(input: I): I => ({
    ...input,
    headers: { ...input.headers, ...context.headers },
  });
  return {
    inbound: [
      {
        execute(input, next) {
          context = readContext(input.headers);
          const { parent } = context;
          const result = next(input);
          if (parent?.isSampled)
            result.then(
              () => tellEnd(parent, 'completed'),
              (error: unknown) => tellEnd(parent, outcomeOf(error)),
            );
          return result;
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(withContext(input)),
        scheduleLocalActivity: (input, next) => next(withContext(input)),
        startChildWorkflowExecution: (input, next) => next(withContext(input)),
        continueAsNew: (input, next) => next(withContext(input)),
        signalWorkflow: (input, next) => next(withContext(input)),
        getLogAttributes: (input, next) =>
          next({ ...input, ...logSubject(workflowInfo().workflowId), ...context.logFields }),
      },
    ],
  };
};

interface Context {
  /** Of whoever started the run. */
  readonly parent?: TraceParent | undefined;
  /** For what the run starts. */
  readonly headers?: Headers;
  readonly logFields?: Readonly<Record<string, string>>;
}

/** What came with the start of the run. */
function readContext(headers: Headers): Context {
  const { [contextHeaders.log]: log, [contextHeaders.trace]: trace } = headers;
  const { traceparent } = trace ? defaultPayloadConverter.fromPayload<{ traceparent?: string }>(trace) : {};
  const parent = readTraceParent(traceparent);
  const own = parent && writeTraceParent({ ...parent, spanId: spanOf(workflowInfo().runId) });
  return {
    parent,
    headers: {
      ...(log && { [contextHeaders.log]: log }),
      ...(own && { [contextHeaders.trace]: defaultPayloadConverter.toPayload({ traceparent: own })! }),
    },
    logFields: {
      ...(log && defaultPayloadConverter.fromPayload<LogHeader>(log)),
      ...(parent && { trace_id: parent.traceId }),
    },
  };
}

/** The random half of the run's id, a UUID: the same on every replay, and the workflow's own random numbers stay as they are. */
function spanOf(runId: string): string {
  return runId.replaceAll('-', '').slice(16);
}

function outcomeOf(error: unknown): EndedRun['outcome'] {
  if (error instanceof ContinueAsNew) return 'continued';
  return isCancellation(error) ? 'cancelled' : 'failed';
}

function tellEnd(parent: TraceParent, outcome: EndedRun['outcome']): void {
  const { workflowType, workflowId, runId, startTime, typedSearchAttributes: known } = workflowInfo();
  proxySinks<TraceSinks>().traces.runEnded({
    ...{ workflowType, workflowId, runId, outcome },
    parent: writeTraceParent(parent),
    spanId: spanOf(runId),
    startMs: startTime.getTime(),
    endMs: Date.now(),
    accountId: known.get(searchAttributes.accountId),
    agentId: known.get(searchAttributes.agentId),
    chain: known.get(searchAttributes.chain),
  });
}
