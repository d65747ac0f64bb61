import { type Tracer, trace } from '@opentelemetry/api';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import { OpenTelemetryWorkflowClientInterceptor } from '@temporalio/interceptors-opentelemetry/lib/client/index.js';
import { OpenTelemetryActivityInboundInterceptor } from '@temporalio/interceptors-opentelemetry/lib/worker/index.js';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { logSubject } from '../domain/log-subject.ts';
import { workflowNames } from '../temporal.ts';
import { contextHeaders } from '../temporal-headers.ts';
import { toAttributes } from './attributes.ts';

/** What begins a trace where none is: a payment that a worker had to start has one as well. */
const beginning: readonly string[] = [
  workflowNames.transaction,
  workflowNames.x402Payment,
  workflowNames.webhookDelivery,
];

/**
 * Spans for what a client starts and tells, within a trace; what looks after payments all the time (watchers, schedules)
 * makes none, which would be thousands that nobody looks at.
 */
export function createClientInterceptor(tracer: Tracer): WorkflowClientInterceptor {
  const inner = new OpenTelemetryWorkflowClientInterceptor({ tracer });
  const isTraced = (workflowType?: string) =>
    trace.getActiveSpan() !== undefined || (workflowType !== undefined && beginning.includes(workflowType));
  return {
    startWithDetails: (input, next) =>
      isTraced(input.workflowType) ? inner.startWithDetails(input, next) : next(input),
    startUpdateWithStart: (input, next) =>
      isTraced(input.workflowType) ? inner.startUpdateWithStart(input, next) : next(input),
    signalWithStart: (input, next) => (isTraced(input.workflowType) ? inner.signalWithStart(input, next) : next(input)),
    startUpdate: (input, next) => (isTraced() ? inner.startUpdate(input, next) : next(input)),
    signal: (input, next) => (isTraced() ? inner.signal(input, next) : next(input)),
  };
}

/** A span for each attempt of an activity that belongs to a trace. */
export function createActivityInterceptor(tracer: Tracer): ActivityInterceptorsFactory {
  return (context) => {
    const inner = new OpenTelemetryActivityInboundInterceptor(context, { tracer });
    const { workflowExecution, attempt, taskQueue } = context.info;
    const attributes = toAttributes({
      ...logSubject(workflowExecution?.workflowId ?? ''),
      attempt,
      queue: taskQueue,
    });
    return {
      inbound: {
        execute: (input, next) =>
          input.headers[contextHeaders.trace] === undefined
            ? next(input)
            : inner.execute(input, (given) => {
                trace.getActiveSpan()?.setAttributes(attributes);
                return next(given);
              }),
      },
    };
  };
}
