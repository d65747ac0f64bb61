import type { AuthorizationPayload } from '../shared/domain/receipt.ts';
import type { SignerClient } from '../signer/client.ts';
import type { Allotment } from './issue-receipt.ts';
import { type SignAsker, withSigners } from './sign.ts';

/** Has two signers sign an authorisation. @throws as `sign` does */
export function createSignAuthorization({ signer }: { signer: SignerClient }) {
  return async function signAuthorization(
    allotment: Allotment<AuthorizationPayload>,
    asker: SignAsker = {},
  ): Promise<{ readonly signature: `0x${string}` }> {
    const { signature } = await withSigners(() => signer.sign(allotment), asker);
    return { signature };
  };
}
