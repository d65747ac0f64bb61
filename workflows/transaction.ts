import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  patched,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { nextQuietMs } from '../shared/domain/transaction.ts';
import { searchAttributes, type TransactionInput } from '../shared/temporal.ts';
import {
  answerHints,
  chainState,
  longestHistory,
  policyDecision,
  replace,
  show,
  slotFree,
  wake,
} from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { checkChain, evaluatePolicy, fail, settle } from './proxies.ts';
import { replaceTransaction } from './replace-transaction.ts';
import { sendPayment } from './send-payment.ts';

type EndStatus = 'confirmed' | 'failed';

/** How long the POST's answer waits for the chain's first word after the decision. */
const firstWordMs = 300;

/**
 * One payment, from its stored row to its end. Every step resumes from the database: the workflow may be terminated
 * and started again at any point.
 */
export async function transaction({ transactionId }: TransactionInput): Promise<EndStatus> {
  const progress: Progress = {
    decision: undefined,
    prepared: false,
    chainHint: false,
    slotHint: false,
    replaceHint: false,
    answerHint: false,
    floor: undefined,
    tellsPeople: undefined,
  };
  setHandler(policyDecision, async () => {
    await condition(() => progress.decision !== undefined);
    const undecidedByChain = () => progress.decision?.outcome === 'allowed' && !progress.prepared;
    if (undecidedByChain()) await condition(() => !undecidedByChain(), firstWordMs);
    return progress.decision!;
  });
  setHandler(chainState, () => {
    progress.chainHint = true;
  });
  setHandler(slotFree, () => {
    progress.slotHint = true;
  });
  setHandler(replace, () => {
    progress.replaceHint = true;
    progress.answerHint = true;
  });
  for (const hint of answerHints)
    setHandler(hint, () => {
      progress.answerHint = true;
    });

  show('policy');
  const status = await pay(transactionId, progress);
  upsertSearchAttributes([{ key: searchAttributes.txStatus, value: status }]);
  await condition(allHandlersFinished);
  return status;
}

async function pay(transactionId: string, progress: Progress): Promise<EndStatus> {
  const first = await evaluatePolicy(transactionId);
  progress.decision = { outcome: first.outcome === 'allowed' ? 'allowed' : 'denied' };
  if (first.outcome === 'ended') return end(transactionId);
  if (first.outcome !== 'allowed') return 'failed';
  // Whoever finds bytes that were sent by an earlier run looks at once.
  if (first.resume === 'watch') return watch(transactionId, { progress, firstLookMs: 0 });
  const { resume, answerWithinMs } = first;
  const sent = await sendPayment(transactionId, { resume, progress, answerWithinMs });
  if (sent.outcome === 'long') return startAnew(transactionId);
  if (sent.outcome === 'sent') return watch(transactionId, { progress, firstLookMs: sent.firstLookMs });
  return sent.outcome === 'ended' ? end(transactionId) : 'failed';
}

/** Waits for the watcher, and asks the chain itself when nothing was heard for long. */
async function watch(
  transactionId: string,
  { progress, firstLookMs }: { progress: Progress; firstLookMs: number },
): Promise<EndStatus> {
  show('watch');
  let lookAt = Date.now() + firstLookMs;
  for (let quietMs = firstLookMs; ; ) {
    // News does not put the look off: whoever sends hints for ever cannot keep the chain from being asked.
    const leftMs = lookAt - Date.now();
    const hinted = leftMs > 0 && (await condition(() => progress.chainHint || progress.replaceHint, leftMs));
    // The watcher's word says what the database knows; after any other one the chain is asked as well.
    const heard = hinted && !progress.replaceHint;
    progress.chainHint = false;
    progress.replaceHint = false;
    const state = await settle(transactionId);
    if (state.state === 'open' && workflowInfo().historyLength > longestHistory) await startAnew(transactionId);
    if (state.state === 'ended') {
      await wake(state.wake);
      return state.status;
    }
    if (state.replace) {
      const nextLookMs = await replaceTransaction(transactionId, progress);
      show('watch');
      // What cannot be had now is tried again after a while, and the chain is asked meanwhile.
      if (nextLookMs !== undefined) {
        quietMs = nextLookMs;
        lookAt = Date.now() + quietMs;
        continue;
      }
    }
    if (heard) continue;
    const seen = await checkChain(transactionId);
    // The chain's answer is stored: no need to wait for the watcher to find the same.
    if (seen.state === 'final') return end(transactionId);
    if (seen.state === 'replaced') {
      const message = `Another transaction (${seen.by}) took this payment's place on the chain and is final.`;
      return end(transactionId, await fail(transactionId, 'replaced', message));
    }
    if (seen.state === 'expired') return end(transactionId, await fail(transactionId, seen.code, seen.message, true));
    progress.floor = seen.state === 'waiting' ? seen.floor : undefined;
    // What offers more is signed at once, unless that could not be had just now.
    if (seen.state === 'waiting' && seen.replace && !state.replace && patched('offer-more-at-once')) {
      lookAt = Date.now();
      continue;
    }
    quietMs = nextQuietMs(quietMs);
    lookAt = Date.now() + quietMs;
  }
}

/** The same payment with an empty history: the database knows where it stands. */
async function startAnew(transactionId: string): Promise<never> {
  await condition(allHandlersFinished);
  return continueAsNew<typeof transaction>({ transactionId });
}

/** The database says that it is over: ends the payment there, and lets the next one of the wallet go on. */
async function end(transactionId: string, known?: Awaited<ReturnType<typeof settle>>): Promise<EndStatus> {
  const state = known ?? (await settle(transactionId));
  if (state.state === 'open')
    throw ApplicationFailure.nonRetryable(`${transactionId} has ended and is open.`, 'ImpossibleState');
  await wake(state.wake);
  return state.status;
}
