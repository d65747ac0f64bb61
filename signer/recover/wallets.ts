import { HDKey } from '@scure/bip32';
import { bytesToHex } from 'viem';
import { familyOf } from '../../shared/chain/families.ts';
import type { RecoveredKey } from './recover-keys.ts';

/** One wallet of an account, able to sign. */
export interface RecoveredWallet {
  path: string;
  address: string;
  /** 32 bytes, secret. */
  privateKey: Uint8Array;
}

/**
 * Children of a key by BIP-32, as the service derives its wallets.
 * @param p.chain CAIP-2 id of the chain whose addresses they are to have
 * @param p.path of their parent, such as m/44/60/0/0
 */
export function deriveWallets(
  key: Pick<RecoveredKey, 'publicKey' | 'privateKey' | 'chainCode'>,
  p: { chain: string; path: string; indexes: { first: number; last: number } },
): RecoveredWallet[] {
  const whole = { publicKey: bytesToHex(key.publicKey), chainCode: bytesToHex(key.chainCode) };
  const parent = new HDKey({ privateKey: key.privateKey, chainCode: Uint8Array.from(key.chainCode) }).derive(p.path);
  const wallets: RecoveredWallet[] = [];
  for (let index = p.indexes.first; index <= p.indexes.last; index++) {
    const path = `${p.path}/${index}`;
    const { privateKey } = parent.deriveChild(index);
    if (!privateKey) throw new Error(`${path} has no key (BIP-32); leave it out`);
    const address = familyOf(p.chain).deriveAddress({ ...whole, path, chain: p.chain });
    wallets.push({ path, address, privateKey });
  }
  parent.wipePrivateData();
  return wallets;
}
