import type { NativeConnection, WorkflowBundleOption } from '@temporalio/worker';
import { Worker } from '@temporalio/worker';
import type { WalletActivities } from '../activities/wallet.ts';
import { queues } from '../shared/temporal.ts';
import { autoscalingPollers, shutdownGraceTime } from './limits.ts';
import type { Observed } from './observe.ts';
import { createSlotGate, type SlotGate, tunerFor } from './slot-gate.ts';

/** Workflows at rest that are kept in memory (about 0.5 MB each); the others are replayed when something happens. */
const maxCachedWorkflows = 400;
/** Workflow tasks at a time; each may run one local activity, which holds one database connection. */
const maxConcurrentWorkflowTaskExecutions = 40;
const maxConcurrentLocalActivityExecutions = 20;
/**
 * A workflow's next task goes to the worker that has it in memory. When that one has stopped or died, or has so much to
 * do, another one takes over after this long; it replays a few dozen events.
 */
const stickyQueueScheduleToStartTimeout = '2s';
/** Only the reconcile schedule runs remote activities here. */
const maxConcurrentActivityTaskExecutions = 5;

/** Queue `wallet`: all workflows, and the activities that are SQL only. */
export function createWalletWorker({
  connection,
  namespace,
  activities,
  workflowBundle,
  gate = createSlotGate(),
  observed,
}: {
  connection: NativeConnection;
  namespace: string;
  activities: WalletActivities;
  workflowBundle: WorkflowBundleOption;
  gate?: SlotGate;
  observed?: Observed | undefined;
}): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    taskQueue: queues.wallet,
    activities,
    workflowBundle,
    maxCachedWorkflows,
    tuner: tunerFor(gate, {
      workflowTasks: maxConcurrentWorkflowTaskExecutions,
      activities: maxConcurrentActivityTaskExecutions,
      localActivities: maxConcurrentLocalActivityExecutions,
    }),
    stickyQueueScheduleToStartTimeout,
    workflowTaskPollerBehavior: autoscalingPollers,
    shutdownGraceTime,
    ...observed,
  });
}
