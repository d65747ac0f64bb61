import { ActivityFailure, CancellationScope, condition, isCancellation, patched } from '@temporalio/workflow';
import { show } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import {
  allotReplacement,
  dropReplacement,
  endUnsigned,
  findUnsigned,
  giveBackNonce,
  quoteReplacement,
} from './proxies.ts';
import { type SignResult, sendBytes, signAllotted } from './sign-and-send.ts';

/**
 * Signs and sends what is to stand in place of what was signed at the payment's nonce, if that is still wanted.
 * @returns how long to wait for news then; undefined when nothing was sent
 */
export async function replaceTransaction(transactionId: string, progress: Progress): Promise<number | undefined> {
  show('replace');
  if (patched('ask-the-signers-first')) {
    const isGivenBack = await giveBack(transactionId);
    if (isGivenBack === undefined) return undefined;
    // The database knows that it is over.
    if (isGivenBack) return 0;
  }
  for (;;) {
    const terms = await quoteReplacement(transactionId, progress.floor);
    const given = await allotReplacement(transactionId, terms);
    if (given.outcome !== 'allotted') return undefined;
    const signed = await unlessHeard(progress, () => signAllotted(transactionId, given.allotment));
    if (!signed) return undefined;
    if (signed.outcome === 'signed') return sendBytes(transactionId, { ...signed, ...given, progress });
    // Asked for again with each look at the chain.
    if (signed.outcome === 'frozen') return undefined;
    if (signed.outcome === 'refused') {
      await dropReplacement(transactionId, signed.message);
      return undefined;
    }
  }
}

/**
 * Gives the nonce of a payment back that is not to be made, if the signers say that they signed nothing: then nothing has
 * to be used up, and no fee is paid.
 * @returns undefined: too few of them are there to say
 */
async function giveBack(transactionId: string): Promise<boolean | undefined> {
  const request = await findUnsigned(transactionId);
  if (!request) return false;
  try {
    if (!(await endUnsigned(request))) return false;
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error;
    return undefined;
  }
  return (await giveBackNonce(transactionId)).isGivenBack;
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
