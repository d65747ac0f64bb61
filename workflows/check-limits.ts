import { log, setCurrentDetails } from '@temporalio/workflow';
import { checkReservations } from './proxies.ts';

/** One run of the daily schedule: every reservation and hold agrees with its payment, every sum with its parts. */
export async function checkLimits() {
  const result = await checkReservations();
  const words = result.mismatches.map(({ kind, count, examples }) => `${kind}: ${count} (${examples.join(', ')})`);
  setCurrentDetails(words.length === 0 ? 'Everything agrees.' : words.join('\n'));
  if (words.length > 0) log.error('limits and payments do not agree', { mismatches: result.mismatches });
  return result;
}
