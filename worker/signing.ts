import { type NativeConnection, Worker } from '@temporalio/worker';
import type { SigningActivities } from '../activities/signing.ts';
import { queues } from '../shared/temporal.ts';
import { autoscalingPollers, shutdownGraceTime } from './limits.ts';
import type { Observed } from './observe.ts';
import { createSlotGate, type SlotGate, tunerFor } from './slot-gate.ts';

/** Signatures and key generations at a time: the signers' processors are the limit, not this process. */
const maxConcurrentActivityTaskExecutions = 20;

/** Queue `wallet-signing`: reaches the signers; no workflows, no database. */
export function createSigningWorker({
  connection,
  namespace,
  activities,
  gate = createSlotGate(),
  observed,
}: {
  connection: NativeConnection;
  namespace: string;
  activities: SigningActivities;
  gate?: SlotGate;
  observed?: Observed | undefined;
}): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    taskQueue: queues.signing,
    activities,
    tuner: tunerFor(gate, { activities: maxConcurrentActivityTaskExecutions }),
    activityTaskPollerBehavior: autoscalingPollers,
    shutdownGraceTime,
    ...observed,
  });
}
