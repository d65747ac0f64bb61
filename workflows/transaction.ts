import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  setHandler,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import { nextQuietMs } from '../shared/domain/transaction.ts';
import { searchAttributes, type TransactionInput } from '../shared/temporal.ts';
import { answerHints, chainState, policyDecision, show, slotFree, wake } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { checkChain, evaluatePolicy, fail, settle } from './proxies.ts';
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
    answerHint: false,
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
  if (sent.outcome === 'sent') return watch(transactionId, { progress, firstLookMs: sent.firstLookMs });
  return sent.outcome === 'ended' ? end(transactionId) : 'failed';
}

/** Waits for the watcher, and asks the chain itself when nothing was heard for long. */
async function watch(
  transactionId: string,
  { progress, firstLookMs }: { progress: Progress; firstLookMs: number },
): Promise<EndStatus> {
  show('watch');
  for (let quietMs = firstLookMs; ; ) {
    const heard = quietMs > 0 && (await condition(() => progress.chainHint, quietMs));
    progress.chainHint = false;
    const state = await settle(transactionId);
    if (state.state === 'ended') {
      await wake(state.wake);
      return state.status;
    }
    if (heard) continue;
    const seen = await checkChain(transactionId);
    // The chain's answer is stored: no need to wait for the watcher to find the same.
    if (seen.state === 'final') return end(transactionId);
    if (seen.state === 'replaced') {
      const message = `Another transaction (${seen.by}) took this payment's nonce and is final.`;
      const ended = await fail(transactionId, 'replaced', message);
      await wake(ended.wake);
      return ended.status;
    }
    quietMs = nextQuietMs(quietMs);
  }
}

/** The database says that it is over: ends the payment there, and lets the next one of the wallet go on. */
async function end(transactionId: string): Promise<EndStatus> {
  const state = await settle(transactionId);
  if (state.state === 'open')
    throw ApplicationFailure.nonRetryable(`${transactionId} has ended and is open.`, 'ImpossibleState');
  await wake(state.wake);
  return state.status;
}
