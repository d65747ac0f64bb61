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
import { answered } from './answered.ts';
import { show, wake } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { allot, broadcast, fail, prepare, sign } from './proxies.ts';

type Prepared = Awaited<ReturnType<ChainActivities['prepare']>>;

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
      const answer = await answered(transactionId, progress);
      if (answer.outcome !== 'go') return { outcome: answer.outcome };
      answerMs = answer.leftMs;
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

/** A chain that is away must neither keep a question open for longer than it stands, nor an answer from being read. */
async function prepareWithin(
  transactionId: string,
  { progress, answerMs }: { progress: Progress; answerMs: number | undefined },
): Promise<Prepared | undefined> {
  if (answerMs === undefined) return prepare(transactionId);
  try {
    return await CancellationScope.withTimeout(answerMs, () => {
      const scope = CancellationScope.current();
      condition(() => progress.answerHint).then(
        () => scope.cancel(),
        () => undefined,
      );
      return prepare(transactionId);
    });
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
  const ready = await prepareWithin(transactionId, { progress, answerMs });
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
