import { isCancelled, type Queryable } from './pool.ts';

/** What a key belongs to: the same key of another account, or on another path, is another key. */
export interface KeyScope {
  readonly accountId: string;
  readonly method: string;
  /** As asked for, with the ids in it. */
  readonly path: string;
  readonly key: string;
}

/** An answer as it was sent. */
export interface StoredAnswer {
  readonly status: number;
  /** The body, byte by byte. */
  readonly answer: string;
}

/** A key that is in use. */
export interface IdempotencyKeyRow {
  readonly body_hash: Buffer;
  readonly resource_id: string | null;
  /** Whether whoever began is still taken to be at work. */
  readonly is_leased: boolean;
  /** Both null until there is an answer. */
  readonly status: number | null;
  readonly answer: string | null;
}

const ofScope = 'account_id = $1 and method = $2 and path = $3 and key = $4';
const values = ({ accountId, method, path, key }: KeyScope) => [accountId, method, path, key];

/** The key, unless it was never used or has expired. */
export async function findKey(db: Queryable, scope: KeyScope): Promise<IdempotencyKeyRow | undefined> {
  const { rows } = await db.query<IdempotencyKeyRow>(
    `select body_hash, resource_id, lease_until > now() as is_leased, status, answer
     from idempotency_keys where ${ofScope} and (expires_at is null or expires_at >= now())`,
    values(scope),
  );
  return rows[0];
}

export interface NewKey extends KeyScope {
  readonly bodyHash: Buffer;
  /** What is made under the key. */
  readonly resourceId: string | null;
  /** How long whoever begins is taken to be at work. */
  readonly leaseMs: number;
  /** How long the key lives; null: as long as what it made. */
  readonly lifetimeMs: number | null;
  /** Where the answer is known already. */
  readonly answer?: StoredAnswer;
}

/**
 * Takes a key, in the database transaction of what is made under it. Another one that takes it at the same moment is
 * waited for. An expired key counts as absent. Make it the first statement: whoever waits here then holds no other lock.
 * @returns whether it is taken now by this call; otherwise it is in use, also by one that was waited for in vain
 */
export async function claimKey(db: Queryable, key: NewKey): Promise<boolean> {
  try {
    return await insertKey(db, key);
  } catch (error) {
    if (isCancelled(error)) return false;
    throw error;
  }
}

async function insertKey(db: Queryable, key: NewKey): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into idempotency_keys (account_id, method, path, key, body_hash, resource_id, lease_until, expires_at,
                                   status, answer)
     values ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 millisecond', now() + $8 * interval '1 millisecond',
             $9, $10)
     on conflict (account_id, method, path, key) do update
       set body_hash = excluded.body_hash, resource_id = excluded.resource_id, lease_until = excluded.lease_until,
           expires_at = excluded.expires_at, status = excluded.status, answer = excluded.answer, created_at = now()
       where idempotency_keys.expires_at < now()`,
    [
      ...values(key),
      key.bodyHash,
      key.resourceId,
      key.leaseMs,
      key.lifetimeMs,
      key.answer?.status ?? null,
      key.answer?.answer ?? null,
    ],
  );
  return rowCount === 1;
}

/** A key as one request has claimed it, so that nobody else's is meant. */
export type ClaimedKey = Pick<NewKey, keyof KeyScope | 'bodyHash' | 'resourceId'>;

const ofClaim = `${ofScope} and body_hash = $5 and resource_id is not distinct from $6`;

/**
 * Keeps the answer of a claimed key, unless it has one already: the first one stands.
 * @returns the answer that stands; undefined where the key is not claimed so, as after a rollback
 */
export async function storeAnswer(
  db: Queryable,
  { claim, answer }: { claim: ClaimedKey; answer: StoredAnswer },
): Promise<StoredAnswer | undefined> {
  const bound = [...values(claim), claim.bodyHash, claim.resourceId];
  const { rowCount } = await db.query(
    `update idempotency_keys set status = $7, answer = $8 where ${ofClaim} and status is null`,
    [...bound, answer.status, answer.answer],
  );
  if (rowCount === 1) return answer;
  const { rows } = await db.query<StoredAnswer>(
    `select status, answer from idempotency_keys where ${ofClaim} and status is not null`,
    bound,
  );
  return rows[0];
}

/**
 * Deletes keys that have expired, oldest first, at most `limit` of them; those that somebody is just taking anew are
 * passed over. Call it again while it returns `limit`.
 * @returns how many were deleted
 */
export async function deleteExpiredKeys(db: Queryable, { limit }: { limit: number }): Promise<number> {
  const { rowCount } = await db.query(
    `delete from idempotency_keys where (account_id, method, path, key) in (
       select account_id, method, path, key from idempotency_keys where expires_at < now()
       order by expires_at limit $1 for update skip locked)`,
    [limit],
  );
  return rowCount ?? 0;
}
