import { type Environment, makeApiKey } from '../api-key.ts';
import type { Scope } from '../domain/access.ts';
import { newId } from '../ids.ts';
import { type AccountOfCredential, accountOfCredential } from './accounts.ts';
import type { Queryable } from './pool.ts';

export interface ApiKeyRow {
  readonly id: string;
  readonly account_id: string;
  readonly name: string;
  /** Masked form. */
  readonly prefix: string;
  /** Null: all. */
  readonly scopes: readonly Scope[] | null;
  /** The one agent that it is for. */
  readonly agent_id: string | null;
  readonly expires_at: Date | null;
  readonly created_at: Date;
  readonly last_used_at: Date | null;
}

const columns = 'id, account_id, name, prefix, scopes, agent_id, expires_at, created_at, last_used_at';

/** Makes a key of an account and stores its hash. @returns its row, and the key, which cannot be had again */
export async function createApiKey(
  db: Queryable,
  {
    accountId,
    name,
    environment,
    scopes = null,
    agentId = null,
    expiresAt = null,
  }: {
    accountId: string;
    name: string;
    environment: Environment;
    scopes?: readonly Scope[] | null;
    agentId?: string | null;
    expiresAt?: Date | null;
  },
): Promise<{ row: ApiKeyRow; key: string }> {
  const { key, prefix, hash } = makeApiKey({ environment });
  const { rows } = await db.query<ApiKeyRow>(
    `insert into api_keys (id, account_id, name, prefix, hash, scopes, agent_id, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8) returning ${columns}`,
    [newId('key'), accountId, name, prefix, hash, scopes, agentId, expiresAt],
  );
  return { row: rows[0]!, key };
}

/** Who a key speaks for. */
export interface KeyHolder extends AccountOfCredential {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[] | null;
  readonly agent_id: string | null;
  readonly is_expired: boolean;
  /** Whether `last_used_at` is a minute old or more. */
  readonly stale: boolean;
}

export async function findApiKey(db: Queryable, { hash }: { hash: Buffer }): Promise<KeyHolder | undefined> {
  const { rows } = await db.query<KeyHolder>(
    `select k.id, k.name, k.scopes, k.agent_id, coalesce(k.expires_at <= now(), false) as is_expired,
            (k.last_used_at is null or k.last_used_at < now() - interval '1 minute') as stale, ${accountOfCredential}
     from api_keys k join accounts a on a.id = k.account_id where k.hash = $1`,
    [hash],
  );
  return rows[0];
}

/** Notes that a key is in use; at most once a minute, however many ask at once. */
export async function touchApiKey(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update api_keys set last_used_at = now()
     where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
    [id],
  );
}
