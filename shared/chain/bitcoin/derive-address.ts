import { p2wpkh } from '@scure/btc-signer';
import { derivePublicKey } from '../derive-public-key.ts';
import { networkOf } from './network.ts';

/** Native SegWit address (P2WPKH) of a child of an account's key. See {@link derivePublicKey}. Source: BIP-84, BIP-173. */
export function deriveBitcoinAddress({
  chain,
  ...p
}: Parameters<typeof derivePublicKey>[0] & { chain: string }): string {
  return p2wpkh(derivePublicKey(p), networkOf(chain)).address;
}
