import { HDKey } from '@scure/bip32';
import { bytesToHex } from 'viem';
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts';
import type { RecoveredKey } from './recover-keys.ts';

/** One wallet of an account, able to sign. */
export interface RecoveredWallet {
  path: string;
  account: PrivateKeyAccount;
}

/** Children of a key by BIP-32, as the service derives its wallets. @param p.path of their parent, such as m/44/60/0/0 */
export function deriveWallets(
  key: RecoveredKey,
  p: { path: string; indexes: { first: number; last: number } },
): RecoveredWallet[] {
  const parent = new HDKey({ privateKey: key.privateKey, chainCode: Uint8Array.from(key.chainCode) }).derive(p.path);
  const wallets: RecoveredWallet[] = [];
  for (let index = p.indexes.first; index <= p.indexes.last; index++) {
    const { privateKey } = parent.deriveChild(index);
    if (!privateKey) throw new Error(`${p.path}/${index} has no key (BIP-32); leave it out`);
    wallets.push({ path: `${p.path}/${index}`, account: privateKeyToAccount(bytesToHex(privateKey)) });
  }
  parent.wipePrivateData();
  return wallets;
}
