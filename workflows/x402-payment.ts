import {
  allHandlersFinished,
  condition,
  continueAsNew,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { nextQuietMs } from '../shared/domain/transaction.ts';
import { searchAttributes, type X402PaymentInput } from '../shared/temporal.ts';
import { authorise } from './authorise.ts';
import { answerHints, authorization, chainState, longestHistory, replace, show } from './payment-messages.ts';
import type { X402Progress } from './progress.ts';
import { checkAuthorization, settleX402 } from './proxies.ts';

type EndStatus = 'settled' | 'expired' | 'failed';

/**
 * How long after an authorisation's end the chain is asked about it, where the watcher has not told: final blocks come that
 * much later. The watcher asks about all of them together.
 */
const firstLookMs = 150_000;

/**
 * One payment out of a session, from its stored row until the chain shows what became of its authorisation. Every step
 * resumes from the database: the workflow may be terminated and started again at any point.
 */
export async function x402Payment({ ledgerId }: X402PaymentInput): Promise<EndStatus> {
  const progress: X402Progress = {
    answer: undefined,
    chainHint: false,
    lookHint: false,
    answerHint: false,
    tellsPeople: true,
  };
  setHandler(authorization, async () => {
    await condition(() => progress.answer !== undefined);
    return progress.answer!;
  });
  setHandler(chainState, () => {
    progress.chainHint = true;
  });
  setHandler(replace, () => {
    progress.lookHint = true;
    progress.answerHint = true;
  });
  for (const hint of answerHints)
    setHandler(hint, () => {
      progress.answerHint = true;
    });

  const status = await pay(ledgerId, progress);
  if (status === 'failed') progress.answer = { outcome: 'failed' };
  upsertSearchAttributes([{ key: searchAttributes.txStatus, value: status }]);
  await condition(allHandlersFinished);
  return status;
}

/** As often as it takes: an authorisation that was not handed out in time is followed by another one once it is over. */
async function pay(ledgerId: string, progress: X402Progress): Promise<EndStatus> {
  for (;;) {
    const outcome = await authorise(ledgerId, progress);
    if (outcome === 'failed') return 'failed';
    if (outcome === 'long') await startAnew(ledgerId, progress);
    show(outcome === 'issued' ? 'settlement' : 'outdated');
    const status = await watch(ledgerId, progress);
    if (status !== 'again') return status;
  }
}

/**
 * Waits for the watcher, and asks the chain itself when nothing was heard long after the authorisation was over.
 * @returns `again`: it is over and was never handed out
 */
async function watch(ledgerId: string, progress: X402Progress): Promise<EndStatus | 'again'> {
  let lookAt: number | undefined;
  for (let quietMs = firstLookMs; ; ) {
    progress.chainHint = false;
    const known = await settleX402(ledgerId);
    if (known.state === 'ended') return known.status;
    if (known.state === 'again') return 'again';
    if (workflowInfo().historyLength > longestHistory) await startAnew(ledgerId, progress);
    lookAt ??= Date.now() + known.leftMs + firstLookMs;
    // News does not put the look off: whoever sends hints for ever cannot keep the chain from being asked.
    const waitMs = lookAt - Date.now();
    const isHinted = waitMs > 0 && (await condition(() => progress.chainHint || progress.lookHint, waitMs));
    if (isHinted && !progress.lookHint) continue;
    progress.lookHint = false;
    const seen = await checkAuthorization(ledgerId);
    // The chain's answer is stored: what is known next says what it was.
    if (seen.state !== 'open') continue;
    quietMs = nextQuietMs(quietMs);
    lookAt = Math.max(lookAt, Date.now() + quietMs);
  }
}

/** The same payment with an empty history: the database knows where it stands. */
async function startAnew(ledgerId: string, progress: X402Progress): Promise<never> {
  // Whoever still waits for an answer reads the row as it stands.
  progress.answer ??= { outcome: 'awaiting' };
  await condition(allHandlersFinished);
  return continueAsNew<typeof x402Payment>({ ledgerId });
}
