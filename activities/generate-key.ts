import { cancellationSignal } from '@temporalio/activity';
import { newId } from '../shared/ids.ts';
import type { SignerClient } from '../signer/client.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Public halves of a key whose three shares are stored. */
export interface GeneratedKey {
  readonly keyId: string;
  readonly publicKey: string;
  readonly chainCode: string;
}

/**
 * Has the three signers make a key together, of the owner whose word about its limits counts. Each attempt makes another one; an
 * unfinished one is never used.
 */
export function createGenerateKey({ signer }: { signer: SignerClient }) {
  return async function generateKey(ownerKey?: string): Promise<GeneratedKey> {
    return withHeartbeat(() => signer.generateKey({ keyId: newId('ckey'), ownerKey, signal: cancellationSignal() }));
  };
}
