import { type Client, ScheduleAlreadyRunning, type ScheduleOptions, ScheduleOverlapPolicy } from '@temporalio/client';
import { queues, workflowNames } from '../shared/temporal.ts';

interface Plan extends Required<Pick<ScheduleOptions, 'spec' | 'policies'>> {
  readonly workflow: keyof typeof workflowNames;
  readonly summary: string;
}

/** What runs by itself, by the id of its schedule. */
const plans: Readonly<Record<string, Plan>> = {
  reconcile: {
    spec: { intervals: [{ every: '15s' }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
    workflow: 'reconcile',
    summary: 'Does what was left undone: missing workflows, payments without progress, what ended payments still take',
  },
  'check-limits': {
    spec: { intervals: [{ every: '1d' }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1h' },
    workflow: 'checkLimits',
    summary: 'Reports reservations and holds that do not agree with their payments',
  },
  maintenance: {
    spec: { intervals: [{ every: '1d', offset: '3h' }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '12h' },
    workflow: 'maintenance',
    summary: 'Makes room for the months to come, and drops those that are kept no longer',
  },
};

/** Makes sure that the schedules exist and are as this version wants them. Safe from several workers at once. */
export async function ensureSchedules(client: Client): Promise<void> {
  for (const [scheduleId, { spec, policies, workflow, summary }] of Object.entries(plans)) {
    const schedule = {
      spec,
      policies,
      action: {
        type: 'startWorkflow' as const,
        workflowType: workflowNames[workflow],
        workflowId: scheduleId,
        taskQueue: queues.wallet,
        args: [],
        staticSummary: summary,
      },
    };
    try {
      await client.schedule.create({ scheduleId, ...schedule });
    } catch (error) {
      if (!(error instanceof ScheduleAlreadyRunning)) throw error;
      await client.schedule.getHandle(scheduleId).update((previous) => ({ ...previous, ...schedule }));
    }
  }
}
