import { ApplicationFailure } from '@temporalio/common';
import { familyOfPayload } from '../shared/chain/families.ts';
import type { Signed } from '../shared/chain/family.ts';
import type { SignerClient } from '../signer/client.ts';
import { SignerFault, SignRefused } from '../signer/errors.ts';
import type { Allotment } from './issue-receipt.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/**
 * What a workflow that asks for a signature can do. One that a worker from before freezes carries on would end its payment by
 * the word `frozen`: for such a one it is asked again, until the freeze is lifted.
 */
export interface SignAsker {
  readonly knowsFreezes?: boolean;
}

/**
 * Has two signers sign everything that the allotted payload needs: most need one signature, Bitcoin's one an input.
 * @throws as {@link withSigners} does
 */
export function createSign({ signer }: { signer: SignerClient }) {
  return async function sign(allotment: Allotment, asker: SignAsker = {}): Promise<Signed> {
    const { payload, ...asked } = allotment;
    const family = familyOfPayload(payload);
    const signed = await withSigners(
      () => Promise.all(family.toSign(payload).map((each) => signer.sign({ ...asked, payload: each }))),
      asker,
    );
    return family.assemble({ payload, signatures: signed.map(({ signature }) => signature), from: asked.address });
  };
}

/**
 * Says of what the signers throw whether a repeat makes sense.
 * @throws ApplicationFailure `SignRefused` (details: the reason) and `SignerFault`, neither retryable as they are;
 *   everything else (too few signers reachable; a freeze, for those who do not know of any) is retried by Temporal
 */
export async function withSigners<T>(work: () => Promise<T>, { knowsFreezes = false }: SignAsker): Promise<T> {
  try {
    return await withHeartbeat(work);
  } catch (error) {
    if (error instanceof SignRefused && (knowsFreezes || error.reason !== 'frozen'))
      throw ApplicationFailure.nonRetryable(error.message, 'SignRefused', error.reason);
    if (error instanceof SignerFault) throw ApplicationFailure.nonRetryable(error.message, 'SignerFault');
    throw error;
  }
}
