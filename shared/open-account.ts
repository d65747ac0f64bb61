import type { Environment } from './api-key.ts';
import { createAccount, updateAccount } from './db/accounts.ts';
import { createApiKey } from './db/api-keys.ts';
import { type Acting, insertAudit } from './db/audit.ts';
import { insertMember } from './db/members.ts';
import type { Queryable } from './db/pool.ts';
import type { Plan } from './domain/plans.ts';
import { renderAccount } from './render-account.ts';
import { renderApiKey } from './render-api-key.ts';
import { renderMember } from './render-member.ts';

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
    ownerKey,
    keyName,
    environment,
    acting,
  }: {
    name: string;
    plan: Plan;
    ownerEmail?: string;
    /** Ed25519 public key of who sets limits inside the signers; default nobody. */
    ownerKey?: string;
    keyName: string;
    environment: Environment;
    acting: Acting;
  },
): Promise<{ accountId: string; keyId: string; key: string }> {
  const accountId = await createAccount(db, { name, plan, ownerKey });
  const account = (await updateAccount(db, { id: accountId, change: { owner_email: ownerEmail ?? null } }))!;
  await insertAudit(db, {
    accountId,
    action: 'account.created',
    acting,
    resourceType: 'account',
    resourceId: accountId,
    result: 'success',
    changes: { before: null, after: renderAccount(account) },
  });
  if (ownerEmail !== undefined) await inviteOwner(db, { accountId, email: ownerEmail, acting });
  const { row, key } = await createApiKey(db, { accountId, name: keyName, environment });
  await insertAudit(db, {
    accountId,
    action: 'api_key.created',
    acting,
    resourceType: 'api_key',
    resourceId: row.id,
    result: 'success',
    changes: { before: null, after: renderApiKey(row) },
  });
  return { accountId, keyId: row.id, key };
}

async function inviteOwner(
  db: Queryable,
  { accountId, email, acting }: { accountId: string; email: string; acting: Acting },
): Promise<void> {
  const member = (await insertMember(db, { accountId, email, role: 'owner' }))!;
  await insertAudit(db, {
    accountId,
    action: 'member.invited',
    acting,
    resourceType: 'member',
    resourceId: member.id,
    result: 'success',
    changes: { before: null, after: renderMember(member) },
  });
}
