import { familyOf } from '../shared/chain/families.ts';
import { insertAccountKey } from '../shared/db/account-keys.ts';
import { findAccount } from '../shared/db/accounts.ts';
import { insertWallet, lockAgent } from '../shared/db/agents.ts';
import type { Queryable } from '../shared/db/pool.ts';
import {
  findWalletByPath,
  giveKeyBack,
  insertRestoredAccount,
  insertRestoredAgent,
  raiseNextIndex,
} from '../shared/db/restored.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import { newId } from '../shared/ids.ts';
import type { KeyRecord } from '../signer/client.ts';
import type { SignedPayment } from './list-signed.ts';

/**
 * Makes sure that the database has the wallet that a payment was signed with, with its key, agent and account, as the
 * signers know them. Whatever it has stays as it is.
 * @returns the wallet's id, or undefined with the finding that says why the payment cannot be stored; and what was done
 */
export async function restoreWallet(
  db: Queryable,
  { payment, keys }: { payment: SignedPayment; keys: readonly KeyRecord[] },
): Promise<{ walletId: string | undefined; findings: RestoreFinding[] }> {
  const { wallet, accountId, agentId } = payment;
  const known = await findWalletByPath(db, { keyId: wallet.key_id, path: wallet.path });
  if (known && known.address === wallet.address && known.agent_id === agentId)
    return { walletId: known.id, findings: [] };
  if (known) {
    const detail = `Wallet ${known.address} (key ${wallet.key_id}, ${wallet.path}) is agent ${known.agent_id}'s here; the signers paid ${payment.id} with it for agent ${agentId}.`;
    return { walletId: undefined, findings: [{ what: 'owner_disagrees', id: payment.id, detail }] };
  }
  const findings: RestoreFinding[] = [];
  const refused = await restoreKey(db, { payment, keys, findings });
  if (refused) return { walletId: undefined, findings: [refused] };
  if (!(await lockAgent(db, { id: agentId }))) {
    const chain = payment.things[0]!.intent.chain;
    await insertRestoredAgent(db, { id: agentId, accountId, name: `Restored ${agentId}`, chain });
    const detail = `Agent ${agentId} of account ${accountId} was lost, with its policies. It is there again with its address ${wallet.address}, inactive: name it, give it policies, then activate it.`;
    findings.push({ what: 'agent_recreated', id: agentId, detail });
  }
  const walletId = newId('wal');
  await insertWallet(db, {
    id: walletId,
    agentId,
    accountKeyId: wallet.key_id,
    path: wallet.path,
    address: wallet.address,
  });
  await raiseNextIndex(db, { keyId: wallet.key_id, above: Number(wallet.path.split('/').at(-1)) });
  return { walletId, findings };
}

/** Account and key. @returns why they cannot be had */
async function restoreKey(
  db: Queryable,
  { payment, keys, findings }: { payment: SignedPayment; keys: readonly KeyRecord[]; findings: RestoreFinding[] },
): Promise<RestoreFinding | undefined> {
  const { wallet, accountId, id } = payment;
  const key = keys.find(({ keyId }) => keyId === wallet.key_id);
  const chain = payment.things[0]!.intent.chain;
  const derived = key && familyOf(chain).deriveAddress({ ...key, path: wallet.path, chain });
  if (!key || derived !== wallet.address) {
    const detail = `Payment ${id} was signed by wallet ${wallet.address}, and the three signers do not agree on a key ${wallet.key_id} that has it at ${wallet.path}.`;
    return { what: 'key_unknown', id, detail };
  }
  if (!(await findAccount(db, { id: accountId }))) {
    await insertRestoredAccount(db, { id: accountId, name: `Restored ${accountId}`, ownerKey: key.ownerKey });
    const detail = `Account ${accountId} was lost, with its members, API keys and settings. It is there again with its key; make an owner (npm run admin -- member invite) and name it.`;
    findings.push({ what: 'account_recreated', id: accountId, detail });
  }
  const { publicKey, chainCode, keyId } = key;
  await insertAccountKey(db, { id: keyId, accountId: null, publicKey, chainCode });
  if (await giveKeyBack(db, { keyId, accountId })) return undefined;
  const detail = `Key ${keyId} belongs to another account than ${accountId} here, for which the signers paid ${id} with it.`;
  return { what: 'owner_disagrees', id, detail };
}
