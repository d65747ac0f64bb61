import { type Client, ScheduleAlreadyRunning, type ScheduleOptions, ScheduleOverlapPolicy } from '@temporalio/client';
import {
  queues,
  type RefreshKeysInput,
  type WatchGasInput,
  type WatchSignersInput,
  workflowNames,
} from '../shared/temporal.ts';

interface Plan extends Required<Pick<ScheduleOptions, 'spec' | 'policies'>> {
  readonly workflow: keyof typeof workflowNames;
  readonly summary: string;
  readonly args?: readonly (RefreshKeysInput | WatchGasInput | WatchSignersInput)[];
  /** Why nothing runs by itself; it can still be started by hand. */
  readonly pausedBecause?: string | undefined;
}

/** Settings on which the schedules depend. */
export interface ScheduleSettings {
  /** Days after which the shares of a key are made anew; 0: never by a schedule. */
  readonly keyRefreshDays: number;
  /** In production a signer without a backup is told of. */
  readonly environment: 'sandbox' | 'production';
  /** Minutes between looks at what wallets hold for fees. */
  readonly gasCheckMinutes: number;
  /** By CAIP-2 id. */
  readonly chains: readonly string[];
}

/** What runs by itself, by the id of its schedule. */
const plans = ({
  keyRefreshDays,
  environment,
  gasCheckMinutes,
  chains,
}: ScheduleSettings): Readonly<Record<string, Plan>> => ({
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
  'watch-signers': {
    spec: { intervals: [{ every: '1m' }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
    workflow: 'watchSigners',
    args: [{ refreshDays: keyRefreshDays, wantsBackups: environment === 'production' }],
    summary: 'Looks at what each signer holds, and tells operators what is wrong',
  },
  'watch-gas': {
    spec: { intervals: [{ every: `${gasCheckMinutes}m` }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
    workflow: 'watchGas',
    args: [{ chains }],
    summary: 'Reads what wallets hold for fees, tells of those that are low, and has funding agents fill them up',
  },
  'refresh-keys': {
    spec: { intervals: [{ every: '1d', offset: '4h' }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '12h' },
    workflow: 'refreshKeys',
    args: [{ olderThanDays: keyRefreshDays }],
    summary: `Has the signers make new shares of the account keys whose shares are older than ${keyRefreshDays} days; addresses stay`,
    pausedBecause: keyRefreshDays === 0 ? 'PURSER_KEY_REFRESH_DAYS is 0' : undefined,
  },
});

/**
 * Makes sure that the schedules exist and are as this version wants them. Safe from several workers at once. A schedule
 * that an operator has paused stays paused.
 */
export async function ensureSchedules(client: Client, settings: ScheduleSettings): Promise<void> {
  for (const [scheduleId, plan] of Object.entries(plans(settings))) {
    const { spec, policies, workflow, summary, args = [], pausedBecause } = plan;
    const schedule = {
      spec,
      policies,
      action: {
        type: 'startWorkflow' as const,
        workflowType: workflowNames[workflow],
        workflowId: scheduleId,
        taskQueue: queues.wallet,
        args: [...args],
        staticSummary: summary,
      },
    };
    const ours = pausedBecause !== undefined && { paused: true, note: pausedBecause };
    try {
      await client.schedule.create({ scheduleId, ...schedule, ...(ours && { state: ours }) });
    } catch (error) {
      if (!(error instanceof ScheduleAlreadyRunning)) throw error;
      await client.schedule.getHandle(scheduleId).update(({ state, ...previous }) => {
        // Paused by an earlier setting, and not by an operator.
        const wasOurs = state.paused && (state.note ?? '').startsWith(ourNotes);
        const kept = wasOurs ? { ...state, paused: false, note: '' } : state;
        return { ...previous, ...schedule, state: ours ? { ...state, ...ours } : kept };
      });
    }
  }
}

/** How the notes begin by which this program pauses schedules. */
const ourNotes = 'PURSER_';
