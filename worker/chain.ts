import { type NativeConnection, Worker } from '@temporalio/worker';
import type { ChainActivities } from '../activities/chain.ts';
import { queues } from '../shared/temporal.ts';
import { autoscalingPollers, shutdownGraceTime } from './limits.ts';
import type { Observed } from './observe.ts';
import { createSlotGate, type SlotGate, tunerFor } from './slot-gate.ts';

/** Requests to nodes at a time; a chain that hangs fills these slots and no others. */
const maxConcurrentActivityTaskExecutions = 100;

/** Queue `wallet-chain`: prepare, broadcast, check; reaches nodes and the database. */
export function createChainWorker({
  connection,
  namespace,
  activities,
  gate = createSlotGate(),
  observed,
}: {
  connection: NativeConnection;
  namespace: string;
  activities: ChainActivities;
  gate?: SlotGate;
  observed?: Observed | undefined;
}): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    taskQueue: queues.chain,
    activities,
    tuner: tunerFor(gate, { activities: maxConcurrentActivityTaskExecutions }),
    activityTaskPollerBehavior: autoscalingPollers,
    shutdownGraceTime,
    ...observed,
  });
}
