import { ApplicationFailure } from '@temporalio/common';
import { assemble } from '../shared/chain/evm/assemble.ts';
import type { SignerClient } from '../signer/client.ts';
import { SignerFault, SignRefused } from '../signer/errors.ts';
import type { Allotment } from './issue-receipt.ts';
import { withHeartbeat } from './with-heartbeat.ts';

export interface Signed {
  /** Signed bytes, ready to be sent. */
  readonly raw: `0x${string}`;
  /** Hash under which the chain will know them. */
  readonly hash: `0x${string}`;
}

/**
 * Has two signers sign the allotted payload.
 * @throws as {@link withSigners} does
 */
export function createSign({ signer }: { signer: SignerClient }) {
  return async function sign(allotment: Allotment): Promise<Signed> {
    const { signature } = await withSigners(() => signer.sign(allotment));
    return assemble({ transaction: allotment.payload.transaction, signature });
  };
}

/**
 * Says of what the signers throw whether a repeat makes sense.
 * @throws ApplicationFailure `SignRefused` (details: the reason) and `SignerFault`, neither retryable as they are;
 *   everything else (too few signers reachable) is retried by Temporal
 */
export async function withSigners<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await withHeartbeat(work);
  } catch (error) {
    if (error instanceof SignRefused) throw ApplicationFailure.nonRetryable(error.message, 'SignRefused', error.reason);
    if (error instanceof SignerFault) throw ApplicationFailure.nonRetryable(error.message, 'SignerFault');
    throw error;
  }
}
