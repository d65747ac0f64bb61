import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bytesToHex, type Hex, hexToBytes } from 'viem';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { familyOf } from '../../shared/chain/families.ts';
import type { Signed } from '../../shared/chain/family.ts';
import type { TransactionPayload } from '../../shared/domain/receipt.ts';
import { digestOf } from '../digest/payload.ts';
import type { RecoveredWallet } from './wallets.ts';

/** Signs a transaction with the one key that is whole here, by the digests that signers compute. */
export function signAlone(
  wallet: Omit<RecoveredWallet, 'path'>,
  { payload, chain }: { payload: TransactionPayload; chain: string },
): Signed {
  const family = familyOf(chain);
  const signatures = family.toSign(payload).map((each): Hex => {
    const digest = hexToBytes(digestOf(each, wallet.address));
    const [recovery, ...rs] = secp256k1.sign(digest, wallet.privateKey, { prehash: false, format: 'recovered' });
    return bytesToHex(Uint8Array.from([...rs, 27 + recovery!]));
  });
  return family.assemble({ payload, signatures, from: wallet.address });
}

/**
 * Signs a transaction and sends it.
 * @returns `problem`: why it was not taken, or what is not known about it; the hash tells later
 */
export async function sendAlone(
  adapter: ChainAdapter,
  wallet: RecoveredWallet,
  payload: TransactionPayload,
): Promise<{ hash: string; problem?: string }> {
  const { raw, hash } = signAlone(wallet, { payload, chain: adapter.chain.id });
  try {
    const sent = await adapter.send({ raw });
    return sent.outcome === 'sent' ? { hash } : { hash, problem: sent.reason };
  } catch (error) {
    return { hash, problem: (error as Error).message };
  }
}
