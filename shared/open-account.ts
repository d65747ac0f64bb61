import type { Environment } from './api-key.ts';
import { createAccount, updateAccount } from './db/accounts.ts';
import { createApiKey } from './db/api-keys.ts';
import { type Acting, insertAudit } from './db/audit.ts';
import { insertMember } from './db/members.ts';
import type { Queryable } from './db/pool.ts';
import type { Plan } from './domain/plans.ts';

/**
 * Makes an account and its first API key, and invites its owner, with their audit entries; in the caller's database transaction.
 * @returns their ids, and the key, which cannot be had again
 */
export async function openAccount(
  db: Queryable,
  {
    name,
    plan,
    ownerEmail,
    keyName,
    environment,
    acting,
  }: {
    name: string;
    plan: Plan;
    ownerEmail?: string;
    keyName: string;
    environment: Environment;
    acting: Acting;
  },
): Promise<{ accountId: string; keyId: string; key: string }> {
  const accountId = await createAccount(db, { name, plan });
  const account = await updateAccount(db, { id: accountId, change: { owner_email: ownerEmail ?? null } });
  if (ownerEmail !== undefined) await insertMember(db, { accountId, email: ownerEmail, role: 'owner' });
  await insertAudit(db, {
    accountId,
    action: 'account.created',
    acting,
    resourceType: 'account',
    resourceId: accountId,
    result: 'success',
    changes: { before: null, after: account },
  });
  const { row, key } = await createApiKey(db, { accountId, name: keyName, environment });
  await insertAudit(db, {
    accountId,
    action: 'api_key.created',
    acting,
    resourceType: 'api_key',
    resourceId: row.id,
    result: 'success',
    changes: { before: null, after: row },
  });
  return { accountId, keyId: row.id, key };
}
