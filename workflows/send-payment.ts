import { CancellationScope, condition, isCancellation, workflowInfo } from '@temporalio/workflow';
import type { AllotResult } from '../activities/allot.ts';
import type { ChainActivities } from '../activities/chain.ts';
import { longestFundingPauseMs, nextQuietMs, usualWatchMs } from '../shared/domain/transaction.ts';
import { answered } from './answered.ts';
import { frozen } from './frozen.ts';
import { longestHistory, show, wake } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { allot, awaitApproval, awaitFunds, fail, prepare } from './proxies.ts';
import { sendBytes, signAllotted } from './sign-and-send.ts';

type Prepared = Awaited<ReturnType<ChainActivities['prepare']>>;
/** Payment is over, or its nonce has to be used up: then there is no more to be done here. */
type Over = { readonly outcome: 'failed' } | { readonly outcome: 'ended' } | { readonly outcome: 'filling' };

/**
 * Everything from the decision to stored and sent bytes.
 * @param resume the first step that the database does not show as done
 * @param answerWithinMs a person is asked, and the question stands so long
 * @returns `sent` with the time to wait for news before asking the chain; `failed` when the payment ended as failed
 *   here; `ended` when it had ended before; `long` when it waits, with so long a history that it is to go on in a new run
 */
export async function sendPayment(
  transactionId: string,
  {
    resume,
    progress,
    answerWithinMs,
  }: { resume: 'prepare' | 'sign'; progress: Progress; answerWithinMs: number | undefined },
): Promise<{ outcome: 'sent'; firstLookMs: number } | { outcome: 'failed' | 'ended' | 'long' }> {
  let from = resume;
  let answerMs = answerWithinMs;
  let fundsMs = 0;
  let frozenMs = 0;
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
      if (answer.outcome !== 'go') return leave(answer);
      answerMs = answer.leftMs;
      from = 'prepare';
      continue;
    }
    if (given.outcome === 'unfunded') {
      fundsMs = Math.min(nextQuietMs(fundsMs), longestFundingPauseMs);
      const funds = await funded(transactionId, { message: given.message, pauseMs: fundsMs, progress, answerMs });
      if (funds) return leave(funds);
      from = 'prepare';
      continue;
    }
    if (given.outcome === 'frozen') {
      progress.prepared = true;
      if (workflowInfo().historyLength > longestHistory) return { outcome: 'long' };
      frozenMs = await frozen(progress, { lastMs: frozenMs, by: 'database' });
      continue;
    }
    if (given.outcome === 'failed' || given.outcome === 'ended' || given.outcome === 'filling') return leave(given);
    if (given.outcome === 'signed') return { outcome: 'sent', firstLookMs: 0 };
    if (given.outcome === 'denied') {
      await wake(given.wake);
      return { outcome: 'failed' };
    }
    if (given.outcome === 'wait') {
      show('slot');
      // Whoever frees a nonce says so; the timer is for a word that got lost.
      await condition(() => progress.slotHint || progress.replaceHint, quietMs);
      progress.slotHint = false;
      progress.replaceHint = false;
      quietMs = nextQuietMs(quietMs);
      continue;
    }
    const signed = await signAllotted(transactionId, given.allotment);
    if (signed.outcome === 'refused') return leave(await failed(transactionId, 'signing_failed', signed.message));
    if (signed.outcome === 'signed')
      return { outcome: 'sent', firstLookMs: await sendBytes(transactionId, { ...signed, progress }) };
    if (signed.outcome === 'frozen') {
      if (workflowInfo().historyLength > longestHistory) return { outcome: 'long' };
      frozenMs = await frozen(progress, { lastMs: frozenMs, by: 'signers' });
    }
    from = 'sign';
  }
}

/** What has to be done with its nonce is done where the payment is watched. */
function leave({ outcome }: Over): { outcome: 'sent'; firstLookMs: number } | { outcome: 'failed' | 'ended' } {
  return outcome === 'filling' ? { outcome: 'sent', firstLookMs: 0 } : { outcome };
}

/** Ends the payment as failed. */
async function failed(
  transactionId: string,
  code: 'signing_failed' | PrepareFailureCode,
  message: string,
): Promise<Over> {
  const ended = await fail(transactionId, code, message);
  if (ended.state === 'open') return { outcome: 'filling' };
  await wake(ended.wake);
  return { outcome: 'failed' };
}

/**
 * Waits a while for money to pay the fee with, and no longer than a question stands.
 * @returns undefined: look again
 */
async function funded(
  transactionId: string,
  {
    message,
    pauseMs,
    progress,
    answerMs,
  }: { message: string; pauseMs: number; progress: Progress; answerMs: number | undefined },
): Promise<Over | undefined> {
  show('funds');
  progress.prepared = true;
  if (answerMs !== undefined) {
    const state = await awaitApproval(transactionId);
    if (state.outcome === 'ended' || state.outcome === 'filling') return { outcome: state.outcome };
    if (state.outcome === 'expired' || state.outcome === 'rejected') {
      await wake(state.wake);
      return { outcome: 'failed' };
    }
  }
  const { outcome } = await awaitFunds(transactionId, message);
  if (outcome !== 'waiting') return { outcome };
  await condition(() => progress.replaceHint || progress.answerHint, pauseMs);
  // The next look reads everything that these were about.
  progress.replaceHint = false;
  progress.answerHint = false;
  return undefined;
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

type PrepareFailureCode = (Prepared & { outcome: 'failed' })['code'] | 'dropped';

async function prepareAndAllot(
  transactionId: string,
  { progress, answerMs }: { progress: Progress; answerMs: number | undefined },
): Promise<AllotResult | Over> {
  show('prepare');
  const ready = await prepareWithin(transactionId, { progress, answerMs });
  if (!ready) return { outcome: 'awaiting' };
  if (ready.outcome === 'ended') return { outcome: 'ended' };
  if (ready.outcome === 'ready') {
    const given = await allot(transactionId, ready);
    progress.prepared = true;
    return given;
  }
  if (ready.outcome === 'failed' && ready.mayPass) return { outcome: 'unfunded', message: ready.message };
  const code = ready.outcome === 'failed' ? ready.code : 'dropped';
  const over = await failed(transactionId, code, ready.message);
  progress.decision = { outcome: 'failed' };
  return over;
}
