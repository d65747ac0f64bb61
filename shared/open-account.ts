import type { Environment } from './api-key.ts';
import { createAccount, type Plan, updateAccountSettings } from './db/accounts.ts';
import { createApiKey } from './db/api-keys.ts';
import { type Acting, insertAudit } from './db/audit.ts';
import type { Queryable } from './db/pool.ts';

/**
 * Makes an account and its first API key, with their audit entries; in the caller's database transaction.
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
  const settings = await updateAccountSettings(db, { id: accountId, ownerEmail });
  await insertAudit(db, {
    accountId,
    action: 'account.created',
    acting,
    resourceType: 'account',
    resourceId: accountId,
    result: 'success',
    changes: { before: null, after: { ...settings, name, plan } },
  });
  const { id: keyId, prefix, key } = await createApiKey(db, { accountId, name: keyName, environment });
  await insertAudit(db, {
    accountId,
    action: 'api_key.created',
    acting,
    resourceType: 'api_key',
    resourceId: keyId,
    result: 'success',
    changes: { before: null, after: { id: keyId, name: keyName, prefix } },
  });
  return { accountId, keyId, key };
}
