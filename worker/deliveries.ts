import { type NativeConnection, Worker, type WorkflowBundleOption } from '@temporalio/worker';
import type { DeliveryActivities } from '../activities/deliveries.ts';
import { queues } from '../shared/temporal.ts';
import { autoscalingPollers, shutdownGraceTime } from './limits.ts';
import type { Observed } from './observe.ts';
import { createSlotGate, type SlotGate, tunerFor } from './slot-gate.ts';

/**
 * Requests to receivers at a time. Each costs a socket and little else, and those that hang hold theirs for 15 s: a webhook
 * that hangs holds 25 for each of its eight attempts at most (activities/dispatch-deliveries.ts), so that there is room
 * beside it; and with all slots held by such ones, 20 come free each second, shared fairly by accounts.
 */
const maxConcurrentActivityTaskExecutions = 300;
/** Workflow tasks at a time; none of them waits for anything. */
const maxConcurrentWorkflowTaskExecutions = 20;
/** Deliveries at rest that are kept in memory: enough for those whose first attempt is about to end. Others are six events. */
const maxCachedWorkflows = 100;
/** As for the other workflows: how long a worker that has died holds up those it has in memory. */
const stickyQueueScheduleToStartTimeout = '2s';

/** Queue `wallet-deliveries`: workflows and attempts of deliveries; reaches receivers and the database. */
export function createDeliveryWorker({
  connection,
  namespace,
  activities,
  workflowBundle,
  gate = createSlotGate(),
  observed,
}: {
  connection: NativeConnection;
  namespace: string;
  activities: DeliveryActivities;
  workflowBundle: WorkflowBundleOption;
  gate?: SlotGate;
  observed?: Observed | undefined;
}): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    taskQueue: queues.deliveries,
    activities,
    workflowBundle,
    maxCachedWorkflows,
    tuner: tunerFor(gate, {
      workflowTasks: maxConcurrentWorkflowTaskExecutions,
      activities: maxConcurrentActivityTaskExecutions,
    }),
    stickyQueueScheduleToStartTimeout,
    workflowTaskPollerBehavior: autoscalingPollers,
    activityTaskPollerBehavior: autoscalingPollers,
    shutdownGraceTime,
    ...observed,
  });
}
