import { ActivityFailure, ApplicationFailure, log, sleep, TimeoutFailure } from '@temporalio/workflow';
import type { Allotment } from '../activities/issue-receipt.ts';
import type { createSign } from '../activities/sign.ts';
import { doubtfulWatchMs, usualWatchMs } from '../shared/domain/transaction.ts';
import { show } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { broadcast, sign } from './proxies.ts';

/** Signed bytes, as the activity answers them. */
type Signed = Awaited<ReturnType<ReturnType<typeof createSign>>>;

/** How long to leave the signers alone after one of them cheated or failed inside an authenticated message. */
const faultPauseMs = 60_000;

/** `again`: ask for a fresh receipt, and sign then. `frozen`: signers know of a freeze; nothing was signed. */
export type SignResult<T = Signed> =
  | { readonly outcome: 'signed'; readonly signed: T }
  | { readonly outcome: 'again' | 'frozen' }
  | { readonly outcome: 'refused'; readonly message: string };

/** Has the signers sign what was allotted. @throws what cancels the scope, and what nobody expected */
export async function signAllotted(transactionId: string, allotment: Allotment): Promise<SignResult> {
  const result = await askSigners(transactionId, () => sign(allotment, { knowsFreezes: true }));
  return result.outcome === 'late'
    ? { outcome: 'refused', message: 'Too few signers could be reached for a whole day.' }
    : result;
}

/**
 * Asks for a signature. `late`: too few signers could be reached for as long as was waited.
 * @throws what cancels the scope, and what nobody expected
 */
export async function askSigners<T>(
  paymentId: string,
  work: () => Promise<T>,
): Promise<SignResult<T> | { readonly outcome: 'late' }> {
  show('sign');
  try {
    return { outcome: 'signed', signed: await work() };
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof TimeoutFailure) return { outcome: 'late' };
    const cause = applicationFailure(error);
    if (cause.type === 'SignerFault') {
      log.error('a signer is at fault; signing rests', { transactionId: paymentId, fault: cause.message });
      show('fault');
      await sleep(faultPauseMs);
      return { outcome: 'again' };
    }
    if (cause.type !== 'SignRefused') throw error;
    if (cause.details?.[0] === 'frozen') return { outcome: 'frozen' };
    // The receipt has grown old while too few signers were there: judge again, for a fresh one.
    return cause.details?.[0] === 'receipt_expired'
      ? { outcome: 'again' }
      : { outcome: 'refused', message: cause.message };
  }
}

/**
 * Stores and sends signed bytes.
 * @param p.version which of the slot's payloads they are
 * @returns how long to wait for news before asking the chain
 */
export async function sendBytes(
  transactionId: string,
  { signed, version, progress }: { signed: Signed; version?: number; progress: Pick<Progress, 'floor'> },
): Promise<number> {
  show('broadcast');
  try {
    const sent = await broadcast({ transactionId, ...signed, ...(version !== undefined && { version }) });
    const { outcome } = sent;
    progress.floor = outcome === 'underpriced' ? sent.floor : undefined;
    if (outcome === 'superseded') return 0;
    return outcome === 'sent' ? usualWatchMs : doubtfulWatchMs;
  } catch (error) {
    // So said an earlier version, whose histories go on here: the bytes are sent again with each look at the chain.
    if (applicationFailure(error).type !== 'BroadcastRefused') throw error;
    return doubtfulWatchMs;
  }
}

/** What an activity threw. @throws the error itself when it is of another kind, such as a cancellation */
function applicationFailure(error: unknown): ApplicationFailure {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (cause instanceof ApplicationFailure) return cause;
  throw error;
}
