import { p2pkh, p2sh, p2tr, p2wpkh, p2wsh } from '@scure/btc-signer';
import { pubECDSA, pubSchnorr, randomPrivateKeyBytes } from '@scure/btc-signer/utils.js';
import { regtestNetwork } from './bitcoin-ledger.ts';

export const payeeKinds = ['p2pkh', 'p2sh', 'p2wpkh', 'p2wsh', 'p2tr'] as const;
export type PayeeKind = (typeof payeeKinds)[number];

/** A regtest address of one kind, of somebody new unless told whose. */
export function payee(kind: PayeeKind, privateKey: Uint8Array = randomPrivateKeyBytes()): string {
  const publicKey = pubECDSA(privateKey);
  const single = p2wpkh(publicKey, regtestNetwork);
  const payments = {
    p2pkh: () => p2pkh(publicKey, regtestNetwork),
    p2sh: () => p2sh(single, regtestNetwork),
    p2wpkh: () => single,
    p2wsh: () => p2wsh(p2pkh(publicKey, regtestNetwork), regtestNetwork),
    p2tr: () => p2tr(pubSchnorr(privateKey), undefined, regtestNetwork),
  };
  return payments[kind]().address!;
}
