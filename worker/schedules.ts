import { type Client, ScheduleAlreadyRunning, type ScheduleOptions, ScheduleOverlapPolicy } from '@temporalio/client';
import { queues, workflowNames } from '../shared/temporal.ts';

const reconcileEvery = '15s';

/** Makes sure that the reconcile schedule exists and is as this version wants it. Safe from several workers at once. */
export async function ensureSchedules(client: Client): Promise<void> {
  const schedule = {
    spec: { intervals: [{ every: reconcileEvery }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
    action: {
      type: 'startWorkflow' as const,
      workflowType: workflowNames.reconcile,
      workflowId: 'reconcile',
      taskQueue: queues.wallet,
      args: [],
      staticSummary: 'Starts the workflow of every open payment that has none',
    },
  } satisfies Omit<ScheduleOptions, 'scheduleId'>;
  try {
    await client.schedule.create({ scheduleId: 'reconcile', ...schedule });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    await client.schedule.getHandle('reconcile').update((previous) => ({ ...previous, ...schedule }));
  }
}
