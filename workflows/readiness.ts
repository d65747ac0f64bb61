import type { ReadinessResult } from '../shared/temporal.ts';
import { signerHealth } from './proxies.ts';

/** Whether a payment could be signed now: goes the way that a payment goes, through both queues to the signers. */
export async function readiness(): Promise<ReadinessResult> {
  return { signers: await signerHealth() };
}
