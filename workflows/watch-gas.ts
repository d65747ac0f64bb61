import { ActivityFailure, isCancellation, log, setCurrentDetails } from '@temporalio/workflow';
import type { GasRead, WatchGasInput } from '../shared/temporal.ts';
import { readGas, topUpGas } from './proxies.ts';

/** One run of the schedule: what wallets hold for fees on each chain, and those that are low are filled up where that is wished. */
export async function watchGas({ chains }: WatchGasInput): Promise<void> {
  const reads = await Promise.all(chains.map(readChain));
  const { made, unfilled } = await topUpGas();
  const words = reads.flatMap((read) => (typeof read === 'string' ? [read] : describe(read)));
  if (made > 0) words.push(`${made} top-ups of funding agents are on their way.`);
  // Histories of before do not have it.
  if (unfilled) words.push(`${unfilled} wallets are not filled up: event agent.low_gas of their agents says why.`);
  setCurrentDetails(words.length === 0 ? 'No wallet needs coins for fees.' : words.join('\n'));
}

/** A chain that cannot be read hides no other. */
async function readChain(chain: string): Promise<GasRead | string> {
  try {
    return await readGas({ chain });
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    log.warn('coins for fees could not be read', { chain, error: String(error.cause) });
    return `${chain}: could not be read.`;
  }
}

function describe({ chain, read, low, failed }: GasRead): string[] {
  if (read + failed === 0) return [];
  const unread = failed === 0 ? '' : `, ${failed} could not be read`;
  return [`${chain}: ${low} of ${read} wallets are low on coins for fees${unread}.`];
}
