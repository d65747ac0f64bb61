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
  /** By the database's clock, in whole days. */
  readonly age_days: number;
  readonly last_used_at: Date | null;
}

const columns = `id, account_id, name, prefix, scopes, agent_id, expires_at, created_at, last_used_at,
  floor(extract(epoch from now() - created_at) / 86400)::int as age_days`;

/** Makes a key of an account and stores its hash. @returns its row, and the key, which cannot be had again */
export async function createApiKey(
  db: Queryable,
  {
    id = newId('key'),
    accountId,
    name,
    environment,
    scopes = null,
    agentId = null,
    expiresAt = null,
  }: {
    id?: string;
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
    [id, accountId, name, prefix, hash, scopes, agentId, expiresAt],
  );
  return { row: rows[0]!, key };
}

/** The key, whoever's it is: for operators. */
export async function getApiKey(db: Queryable, { id }: { id: string }): Promise<ApiKeyRow | undefined> {
  const { rows } = await db.query<ApiKeyRow>(`select ${columns} from api_keys where id = $1`, [id]);
  return rows[0];
}

/** The key, if it is this account's. */
export async function findAccountApiKey(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<ApiKeyRow | undefined> {
  const { rows } = await db.query<ApiKeyRow>(`select ${columns} from api_keys where id = $1 and account_id = $2`, [
    id,
    accountId,
  ]);
  return rows[0];
}

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listApiKeys(
  db: Queryable,
  { accountId, limit, offset }: { accountId: string; limit: number; offset: number },
): Promise<ApiKeyRow[]> {
  const { rows } = await db.query<ApiKeyRow>(
    `select ${columns} from api_keys where account_id = $1 order by created_at desc, id desc limit $2 offset $3`,
    [accountId, limit, offset],
  );
  return rows;
}

export async function countApiKeys(db: Queryable, { accountId }: { accountId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from api_keys where account_id = $1',
    [accountId],
  );
  return rows[0]!.count;
}

/** Deletes a key: no process takes it any more. @returns what it was, unless somebody else has deleted it */
export async function deleteApiKey(db: Queryable, { id }: { id: string }): Promise<ApiKeyRow | undefined> {
  const { rows } = await db.query<ApiKeyRow>(`delete from api_keys where id = $1 returning ${columns}`, [id]);
  return rows[0];
}

/** Deletes every key of an account. @returns what they were */
export async function deleteAccountApiKeys(db: Queryable, { accountId }: { accountId: string }): Promise<ApiKeyRow[]> {
  const { rows } = await db.query<ApiKeyRow>(`delete from api_keys where account_id = $1 returning ${columns}`, [
    accountId,
  ]);
  return rows;
}

/** Deletes every key of an agent. @returns what they were */
export async function deleteAgentApiKeys(db: Queryable, { agentId }: { agentId: string }): Promise<ApiKeyRow[]> {
  const { rows } = await db.query<ApiKeyRow>(`delete from api_keys where agent_id = $1 returning ${columns}`, [
    agentId,
  ]);
  return rows;
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
