import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  log,
  sleep,
} from '@temporalio/workflow';
import type { Allotment, AllotResult } from '../activities/allot.ts';
import type { ChainActivities } from '../activities/chain.ts';
import type { Signed } from '../activities/sign.ts';
import { doubtfulWatchMs, nextQuietMs, usualWatchMs } from '../shared/domain/transaction.ts';
import type { PolicyDecision } from '../shared/temporal.ts';
import { show, wake } from './payment-messages.ts';
import { allot, awaitApproval, broadcast, fail, prepare, sign } from './proxies.ts';

type Prepared = Awaited<ReturnType<ChainActivities['prepare']>>;

/** What the handlers of a payment's workflow share with its steps. */
export interface Progress {
  /** What the POST is answered with; set once the policies have decided, and again if the payment then fails. */
  decision: PolicyDecision | undefined;
  /** Whether the chain has said that the payment can be made. */
  prepared: boolean;
  chainHint: boolean;
  slotHint: boolean;
}

/** How long to leave the signers alone after one of them cheated or failed inside an authenticated message. */
const faultPauseMs = 60_000;

/**
 * Everything from the decision to stored and sent bytes.
 * @param resume the first step that the database does not show as done
 * @param answerWithinMs a person is asked, and the question stands so long
 * @returns `sent` with the time to wait for news before asking the chain; `failed` when the payment ended as failed
 *   here; `ended` when it had ended before
 */
export async function sendPayment(
  transactionId: string,
  {
    resume,
    progress,
    answerWithinMs,
  }: { resume: 'prepare' | 'sign'; progress: Progress; answerWithinMs: number | undefined },
): Promise<{ outcome: 'sent'; firstLookMs: number } | { outcome: 'failed' | 'ended' }> {
  let from = resume;
  let answerMs = answerWithinMs;
  for (let quietMs = usualWatchMs; ; ) {
    const given =
      from === 'prepare' ? await prepareAndAllot(transactionId, { progress, answerMs }) : await allot(transactionId);
    if (given.outcome === 'unprepared') {
      from = 'prepare';
      continue;
    }
    if (given.outcome === 'awaiting') {
      progress.prepared = true;
      const answer = await answered(transactionId);
      if (answer !== 'go') return { outcome: answer };
      answerMs = undefined;
      from = 'prepare';
      continue;
    }
    if (given.outcome === 'failed' || given.outcome === 'ended') return { outcome: given.outcome };
    if (given.outcome === 'signed') return { outcome: 'sent', firstLookMs: 0 };
    if (given.outcome === 'denied') {
      await wake(given.wake);
      return { outcome: 'failed' };
    }
    if (given.outcome === 'wait') {
      show('slot');
      // Whoever frees a nonce says so; the timer is for a word that got lost.
      await condition(() => progress.slotHint, quietMs);
      progress.slotHint = false;
      quietMs = nextQuietMs(quietMs);
      continue;
    }
    const signed = await signAllotted(transactionId, given.allotment);
    if (signed === 'refused') return { outcome: 'failed' };
    if (signed !== 'again') return { outcome: 'sent', firstLookMs: await send(transactionId, signed) };
    from = 'sign';
  }
}

/**
 * Waits until nobody has to be asked any more. A signal or the timer is only a hint to look into the database.
 */
async function answered(transactionId: string): Promise<'go' | 'failed' | 'ended'> {
  show('approval');
  for (let quietMs = 0; ; ) {
    const state = await awaitApproval(transactionId);
    if (state.outcome === 'go' || state.outcome === 'ended') return state.outcome;
    if (state.outcome === 'expired') {
      await wake(state.wake);
      return 'failed';
    }
    quietMs = nextQuietMs(quietMs);
    await sleep(Math.min(quietMs, state.leftMs));
  }
}

/** A chain that is away must not keep a question open for longer than it stands. */
async function prepareWithin(transactionId: string, answerMs: number | undefined): Promise<Prepared | undefined> {
  if (answerMs === undefined) return prepare(transactionId);
  try {
    return await CancellationScope.withTimeout(answerMs, () => prepare(transactionId));
  } catch (error) {
    if (!isCancellation(error) || CancellationScope.current().consideredCancelled) throw error;
    return undefined;
  }
}

async function prepareAndAllot(
  transactionId: string,
  { progress, answerMs }: { progress: Progress; answerMs: number | undefined },
): Promise<AllotResult | { readonly outcome: 'failed' }> {
  show('prepare');
  const ready = await prepareWithin(transactionId, answerMs);
  if (!ready) return { outcome: 'awaiting' };
  if (ready.outcome === 'ready') {
    const given = await allot(transactionId, ready);
    progress.prepared = true;
    return given;
  }
  await wake((await fail(transactionId, ready.code, ready.message)).wake);
  progress.decision = { outcome: 'failed' };
  return { outcome: 'failed' };
}

async function signAllotted(transactionId: string, allotment: Allotment): Promise<Signed | 'again' | 'refused'> {
  show('sign');
  try {
    return await sign(allotment);
  } catch (error) {
    const cause = applicationFailure(error);
    if (cause.type === 'SignerFault') {
      log.error('a signer is at fault; signing rests', { transactionId, fault: cause.message });
      show('fault');
      await sleep(faultPauseMs);
      return 'again';
    }
    if (cause.type !== 'SignRefused') throw error;
    // The receipt has grown old while too few signers were there: judge again, for a fresh one.
    if (cause.details?.[0] === 'receipt_expired') return 'again';
    await wake((await fail(transactionId, 'signing_failed', cause.message)).wake);
    return 'refused';
  }
}

/** Stores and sends the signed bytes. @returns how long to wait for news before asking the chain */
async function send(transactionId: string, signed: Signed): Promise<number> {
  show('broadcast');
  try {
    const { outcome } = await broadcast({ transactionId, ...signed });
    return outcome === 'sent' ? usualWatchMs : doubtfulWatchMs;
  } catch (error) {
    const cause = applicationFailure(error);
    if (cause.type !== 'BroadcastRefused') throw error;
    // Signed bytes may still be mined one day, so the payment has not failed: it is sent again with each look.
    log.error('no node takes the signed bytes', { transactionId, reason: cause.message });
    return doubtfulWatchMs;
  }
}

/** What an activity threw. @throws the error itself when it is of another kind, such as a cancellation */
function applicationFailure(error: unknown): ApplicationFailure {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (cause instanceof ApplicationFailure) return cause;
  throw error;
}
