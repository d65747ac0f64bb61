import { type Environment, makeApiKey } from '../api-key.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Makes a key of an account and stores its hash. @returns the id, the beginning by which it is known, and the key, which cannot be had again */
export async function createApiKey(
  db: Queryable,
  { accountId, name, environment }: { accountId: string; name: string; environment: Environment },
): Promise<{ id: string; prefix: string; key: string }> {
  const id = newId('key');
  const { key, prefix, hash } = makeApiKey({ environment });
  await db.query('insert into api_keys (id, account_id, name, prefix, hash) values ($1, $2, $3, $4, $5)', [
    id,
    accountId,
    name,
    prefix,
    hash,
  ]);
  return { id, prefix, key };
}

/** Who a key speaks for. */
export interface KeyHolder {
  readonly id: string;
  readonly account_id: string;
  readonly name: string;
  /** Whether `last_used_at` is a minute old or more. */
  readonly stale: boolean;
}

export async function findApiKey(db: Queryable, { hash }: { hash: Buffer }): Promise<KeyHolder | undefined> {
  const { rows } = await db.query<KeyHolder>(
    `select id, account_id, name, (last_used_at is null or last_used_at < now() - interval '1 minute') as stale
     from api_keys where hash = $1`,
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
