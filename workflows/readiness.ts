import { proxyActivities } from '@temporalio/workflow';
import type { SigningActivities } from '../activities/signing.ts';
import { queues, type ReadinessResult } from '../shared/temporal.ts';

const { signerHealth } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '2s',
  scheduleToCloseTimeout: '3s',
  retry: { maximumAttempts: 1 },
});

/** Whether a payment could be signed now: goes the way that a payment goes, through both queues to the signers. */
export async function readiness(): Promise<ReadinessResult> {
  return { signers: await signerHealth() };
}
