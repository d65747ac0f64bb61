import { CancellationScope, condition, isCancellation } from '@temporalio/workflow';
import { show } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { allotReplacement, dropReplacement, quoteReplacement } from './proxies.ts';
import { type SignResult, sendBytes, signAllotted } from './sign-and-send.ts';

/**
 * Signs and sends what is to stand in place of what was signed at the payment's nonce, if that is still wanted.
 * @returns how long to wait for news then; undefined when nothing was sent
 */
export async function replaceTransaction(transactionId: string, progress: Progress): Promise<number | undefined> {
  show('replace');
  for (;;) {
    const terms = await quoteReplacement(transactionId);
    const given = await allotReplacement(transactionId, terms);
    if (given.outcome !== 'allotted') return undefined;
    const signed = await unlessHeard(progress, () => signAllotted(transactionId, given.allotment));
    if (!signed) return undefined;
    if (signed.outcome === 'signed') return sendBytes(transactionId, signed.signed, given.version);
    if (signed.outcome === 'refused') {
      await dropReplacement(transactionId, signed.message);
      return undefined;
    }
  }
}

/** While too few signers are there, the chain may decide otherwise: its word ends the wait. */
async function unlessHeard(progress: Progress, work: () => Promise<SignResult>): Promise<SignResult | undefined> {
  try {
    return await CancellationScope.cancellable(async () => {
      const scope = CancellationScope.current();
      condition(() => progress.chainHint).then(
        () => scope.cancel(),
        () => undefined,
      );
      return work();
    });
  } catch (error) {
    if (!isCancellation(error) || CancellationScope.current().consideredCancelled) throw error;
    return undefined;
  }
}
