import { condition } from '@temporalio/workflow';
import { nextQuietMs } from '../shared/domain/transaction.ts';
import { show } from './payment-messages.ts';

/** How long to wait at most where signers are frozen by themselves: of the end of that nobody is told. */
const longestSignersMs = 60_000;

/**
 * Waits a while, because the payment is frozen: whoever lifts that says so, and the timer is for a word that got lost.
 * What comes next reads everything anew.
 * @param hints set by messages to the workflow; cleared here
 * @param lastMs the wait before; 0 for none
 * @param by who said that it is frozen
 * @returns how long it was to wait this time
 */
export async function frozen(
  hints: { answerHint: boolean; replaceHint?: boolean; lookHint?: boolean },
  { lastMs, by }: { lastMs: number; by: 'database' | 'signers' },
): Promise<number> {
  show('frozen');
  const quietMs = Math.min(nextQuietMs(lastMs), by === 'signers' ? longestSignersMs : Number.POSITIVE_INFINITY);
  await condition(() => hints.answerHint || hints.replaceHint === true || hints.lookHint === true, quietMs);
  hints.answerHint = false;
  if (hints.replaceHint !== undefined) hints.replaceHint = false;
  if (hints.lookHint !== undefined) hints.lookHint = false;
  return quietMs;
}
