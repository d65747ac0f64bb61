import { type NativeConnection, Worker } from '@temporalio/worker';
import type { WebhookActivities } from '../activities/webhooks.ts';
import { queues } from '../shared/temporal.ts';
import { autoscalingPollers, shutdownGraceTime } from './limits.ts';
import { mailConnections } from './mail-transport.ts';
import type { Observed } from './observe.ts';
import { createSlotGate, type SlotGate, tunerFor } from './slot-gate.ts';

/** As many as there are connections to the mail server: no mail waits for one while its time runs. */
const maxConcurrentActivityTaskExecutions = mailConnections;

/** Queue `wallet-webhooks`: mail to people; reaches the mail server and the database. */
export function createWebhookWorker({
  connection,
  namespace,
  activities,
  gate = createSlotGate(),
  observed,
}: {
  connection: NativeConnection;
  namespace: string;
  activities: WebhookActivities;
  gate?: SlotGate;
  observed?: Observed | undefined;
}): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    taskQueue: queues.webhooks,
    activities,
    tuner: tunerFor(gate, { activities: maxConcurrentActivityTaskExecutions }),
    activityTaskPollerBehavior: autoscalingPollers,
    shutdownGraceTime,
    ...observed,
  });
}
