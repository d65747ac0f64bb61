import {
  ActivityFailure,
  ApplicationFailure,
  allHandlersFinished,
  condition,
  defineSignal,
  defineUpdate,
  getExternalWorkflowHandle,
  log,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { Allotment, AllotResult } from '../activities/allot.ts';
import type { ChainActivities } from '../activities/chain.ts';
import type { Signed } from '../activities/sign.ts';
import type { SigningActivities } from '../activities/signing.ts';
import type { WalletActivities } from '../activities/wallet.ts';
import { describeStage, doubtfulWatchMs, nextWatchMs, type Stage, usualWatchMs } from '../shared/domain/transaction.ts';
import {
  messageNames,
  type PolicyDecision,
  queues,
  searchAttributes,
  type TransactionInput,
} from '../shared/temporal.ts';

/** Answers the POST: once decided, and once the chain's first word is known if that comes quickly. */
const policyDecision = defineUpdate<PolicyDecision>(messageNames.policyDecision);
/** A hint that the database knows more about our attempts than before; carries nothing. */
const chainState = defineSignal(messageNames.chainState);
/** A hint that a nonce of our wallet may be free. */
const slotFree = defineSignal(messageNames.slotFree);

// SQL only: an attempt ends within a second, or is repeated.
const { evaluatePolicy, allot, settle, fail } = proxyLocalActivities<WalletActivities>({
  startToCloseTimeout: '2s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});
// The timeout is also how long a dead worker's step waits to be repeated; an endpoint is given up after 4 s.
const { prepare, broadcast, checkChain } = proxyActivities<ChainActivities>({
  taskQueue: queues.chain,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '250ms', maximumInterval: '5s' },
});
const { sign } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '25s',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '250ms', maximumInterval: '5s' },
});

/** How long the POST's answer waits for the chain's first word after the decision. */
const firstWordMs = 300;
/** How long to leave the signers alone after one of them cheated or failed inside an authenticated message. */
const faultPauseMs = 60_000;
/** A wake-up for a free nonce can be lost with its sender; then this one comes. */
const slotPollMs = 5_000;

/**
 * One payment, from its stored row to its end. Every step resumes from the database: the workflow may be terminated
 * and started again at any point.
 */
export async function transaction({ transactionId }: TransactionInput): Promise<'confirmed' | 'failed'> {
  let decision: PolicyDecision | undefined;
  let prepared = false;
  let chainHint = false;
  let slotHint = false;
  // Whoever finds bytes that were sent by an earlier run looks at once.
  let firstLookMs = 0;
  setHandler(policyDecision, async () => {
    await condition(() => decision !== undefined);
    if (decision?.outcome === 'allowed')
      await condition(() => prepared || decision?.outcome !== 'allowed', firstWordMs);
    return decision!;
  });
  setHandler(chainState, () => {
    chainHint = true;
  });
  setHandler(slotFree, () => {
    slotHint = true;
  });

  show('policy');
  const status = await run();
  upsertSearchAttributes([{ key: searchAttributes.txStatus, value: status }]);
  await condition(allHandlersFinished);
  return status;

  async function run(): Promise<'confirmed' | 'failed'> {
    const first = await evaluatePolicy(transactionId);
    decision = { outcome: first.outcome === 'allowed' ? 'allowed' : 'denied' };
    if (first.outcome === 'ended') return end(await settle(transactionId));
    if (first.outcome !== 'allowed') return 'failed';
    if (first.resume !== 'watch') {
      const early = await sendOnce(first.resume);
      if (early) return early;
    }
    return watch();
  }

  /** From the decision to stored and sent bytes. @returns the status, when the payment ended before */
  async function sendOnce(resume: 'prepare' | 'sign'): Promise<'confirmed' | 'failed' | undefined> {
    for (let from = resume; ; ) {
      const given = from === 'prepare' ? await prepareAndAllot() : await allot(transactionId);
      if (given === 'failed') return 'failed';
      if (given.outcome === 'ended') return end(await settle(transactionId));
      if (given.outcome === 'signed') return undefined;
      if (given.outcome === 'denied') {
        await wake(given.wake);
        return 'failed';
      }
      if (given.outcome === 'wait') {
        show('slot');
        await condition(() => slotHint, slotPollMs);
        slotHint = false;
        continue;
      }
      const signed = await signAllotted(given.allotment);
      if (signed === 'refused') return 'failed';
      if (signed === 'again') {
        from = 'sign';
        continue;
      }
      firstLookMs = await send(signed);
      return undefined;
    }
  }

  async function prepareAndAllot(): Promise<AllotResult | 'failed'> {
    show('prepare');
    const ready = await prepare(transactionId);
    if (ready.outcome === 'ready') {
      const given = await allot(transactionId, ready);
      prepared = true;
      return given;
    }
    await wake((await fail(transactionId, ready.code, ready.message)).wake);
    decision = { outcome: 'failed' };
    return 'failed';
  }

  async function signAllotted(allotment: Allotment) {
    show('sign');
    try {
      return await sign(allotment);
    } catch (error) {
      const cause = error instanceof ActivityFailure ? error.cause : undefined;
      if (!(cause instanceof ApplicationFailure)) throw error;
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
  async function send(signed: Signed): Promise<number> {
    show('broadcast');
    try {
      const { outcome } = await broadcast({ transactionId, ...signed });
      return outcome === 'sent' ? usualWatchMs : doubtfulWatchMs;
    } catch (error) {
      const cause = error instanceof ActivityFailure ? error.cause : undefined;
      if (!(cause instanceof ApplicationFailure) || cause.type !== 'BroadcastRefused') throw error;
      // Signed bytes may still be mined one day, so the payment has not failed: it is sent again with each look.
      log.error('no node takes the signed bytes', { transactionId, reason: cause.message });
      return doubtfulWatchMs;
    }
  }

  /** Waits for the watcher, and asks the chain itself when nothing was heard for long. */
  async function watch(): Promise<'confirmed' | 'failed'> {
    show('watch');
    for (let quietMs = firstLookMs; ; ) {
      const heard = quietMs > 0 && (await condition(() => chainHint, quietMs));
      chainHint = false;
      const state = await settle(transactionId);
      if (state.state === 'ended') return end(state);
      if (heard) continue;
      const seen = await checkChain(transactionId);
      if (seen.state === 'replaced') {
        const message = `Another transaction (${seen.by}) took this payment's nonce and is final.`;
        return end(await fail(transactionId, 'replaced', message));
      }
      // The chain's answer is stored: no need to wait for the watcher to find the same.
      if (seen.state === 'final') return end(await settle(transactionId));
      quietMs = nextWatchMs(quietMs);
    }
  }

  async function end(state: Awaited<ReturnType<typeof settle>>): Promise<'confirmed' | 'failed'> {
    if (state.state === 'open')
      throw ApplicationFailure.nonRetryable(`${transactionId} has ended and is open.`, 'ImpossibleState');
    await wake(state.wake);
    return state.status;
  }
}

function show(stage: Stage): void {
  setCurrentDetails(describeStage(stage));
}

/** Tells the next payment of the wallet that a nonce may be free; if it is gone, it needs none. */
async function wake(transactionId: string | undefined): Promise<void> {
  if (transactionId === undefined) return;
  await getExternalWorkflowHandle(transactionId)
    .signal(slotFree)
    .catch((error: unknown) => log.info('the payment to be woken is gone', { transactionId, error: String(error) }));
}
