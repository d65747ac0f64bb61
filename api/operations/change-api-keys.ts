import type { Environment } from '../../shared/api-key.ts';
import { lockAccount } from '../../shared/db/accounts.ts';
import { type ApiKeyRow, countApiKeys, createApiKey, deleteApiKey } from '../../shared/db/api-keys.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import type { Once } from '../idempotency.ts';
import { usableScopes } from '../key-scopes.ts';
import { showApiKey } from '../render/api-key.ts';
import { requireLastingAgent } from '../require-agent.ts';
import type { CreateApiKeyBody } from '../schemas/api-keys.ts';

/** Keys of an account at most. */
export const maxApiKeys = 1_000;

/**
 * Makes a key of an account; with its audit entry, in one database transaction.
 * @returns the key as on the wire, with its value, which cannot be had again
 * @throws PurserError 400 for an agent of somebody else, scopes that a key of an agent cannot use, and an end that is
 *   past; 403 when the account has 1,000 keys
 */
export function makeApiKey(
  { pool, environment }: { pool: Pool; environment: Environment },
  { accountId, acting, body, once }: { accountId: string; acting: Acting; body: CreateApiKeyBody; once: Once },
) {
  const { name, scopes = null, agent_id: agentId = null, expires_at: expiresAt = null } = body;
  return inTransaction(pool, async (db) => {
    const id = newId('key');
    await once.claim(db, { resourceId: id });
    // Keys that are made at once are counted one after the other.
    await lockAccount(db, { id: accountId });
    if (agentId !== null) await requireLastingAgent(db, { id: agentId, accountId });
    requireUsable({ scopes, agentId });
    if (expiresAt !== null) await requireFuture(db, expiresAt);
    if ((await countApiKeys(db, { accountId })) >= maxApiKeys) throw tooMany();
    const { row, key } = await createApiKey(db, { id, accountId, name, environment, scopes, agentId, expiresAt });
    const shown = showApiKey(row);
    await noteKey(db, { action: 'api_key.created', acting, row, changes: { before: null, after: shown } });
    return { ...shown, key };
  });
}

/** Deletes a key; with its audit entry, in one database transaction. @returns whether this call did */
export function removeApiKey(pool: Pool, { id, acting }: { id: string; acting: Acting }): Promise<boolean> {
  return inTransaction(pool, async (db) => {
    const row = await deleteApiKey(db, { id });
    if (row) await noteDeletedKey(db, { acting, row });
    return row !== undefined;
  });
}

/** For whoever deletes keys. @param metadata what the entry is to say besides */
export function noteDeletedKey(
  db: Queryable,
  { row, ...entry }: { acting: Acting; row: ApiKeyRow; metadata?: Readonly<Record<string, unknown>> },
): Promise<void> {
  const changes = { before: showApiKey(row), after: null };
  return noteKey(db, { ...entry, action: 'api_key.deleted', row, changes });
}

function noteKey(
  db: Queryable,
  {
    row,
    ...entry
  }: {
    action: 'api_key.created' | 'api_key.deleted';
    acting: Acting;
    row: ApiKeyRow;
    changes: { before: unknown; after: unknown };
    metadata?: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  return insertAudit(db, {
    ...entry,
    accountId: row.account_id,
    agentId: row.agent_id,
    resourceType: 'api_key',
    resourceId: row.id,
    result: 'success',
  });
}

function requireUsable({ scopes, agentId }: { scopes: CreateApiKeyBody['scopes'] | null; agentId: string | null }) {
  const usable = usableScopes({ agentId });
  const useless = scopes?.filter((scope) => !usable.includes(scope)) ?? [];
  if (useless.length === 0) return;
  const message = `scopes names what a key of one agent cannot use: ${useless.join(', ')}. It can use: ${usable.join(', ')}.`;
  throw new PurserError('invalid_request', message, { param: 'scopes' });
}

async function requireFuture(db: Queryable, expiresAt: Date): Promise<void> {
  const now = await databaseClock(db);
  if (expiresAt > now) return;
  const message = `expires_at ${expiresAt.toISOString()} is not in the future: it is ${now.toISOString()} now.`;
  throw new PurserError('invalid_request', message, { param: 'expires_at' });
}

function tooMany(): PurserError {
  return new PurserError(
    'insufficient_permissions',
    `This account has ${maxApiKeys} API keys, and may have no more on any plan. Delete those that nobody uses.`,
  );
}
