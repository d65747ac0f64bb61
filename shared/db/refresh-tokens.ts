import type { Queryable } from './pool.ts';

/** Stores a new refresh token of a session. @param hash SHA-256 of it */
export async function insertRefreshToken(
  db: Queryable,
  { hash, sessionId, lifetimeSeconds }: { hash: Buffer; sessionId: string; lifetimeSeconds: number },
): Promise<void> {
  await db.query(
    `insert into refresh_tokens (hash, session_id, created_at, expires_at)
     values ($1, $2, clock_timestamp(), clock_timestamp() + $3 * interval '1 second')`,
    [hash, sessionId, lifetimeSeconds],
  );
}

/** How a refresh token stands, by the clock of the database. */
export interface RefreshTokenRow {
  readonly session_id: string;
  readonly account_id: string;
  readonly user_id: string;
  /** Whole seconds that are left of its life; 0 or less: none. */
  readonly seconds_left: number;
  /** Milliseconds since it was used; null: never. */
  readonly used_ms_ago: number | null;
  readonly sealed_successor: string | null;
}

/** A refresh token, whatever has become of its session. @param hash SHA-256 of it */
export async function findRefreshToken(
  db: Queryable,
  { hash }: { hash: Buffer },
): Promise<RefreshTokenRow | undefined> {
  const { rows } = await db.query<RefreshTokenRow>(
    `select t.session_id, s.account_id, s.user_id,
            floor(extract(epoch from t.expires_at - clock_timestamp()))::integer as seconds_left,
            floor(extract(epoch from clock_timestamp() - t.used_at) * 1000)::float8 as used_ms_ago, t.sealed_successor
     from refresh_tokens t join auth_sessions s on s.id = t.session_id
     where t.hash = $1`,
    [hash],
  );
  return rows[0];
}

/** Locks a refresh token until the database transaction ends; whoever else uses it waits. */
export async function lockRefreshToken(db: Queryable, { hash }: { hash: Buffer }): Promise<void> {
  await db.query('select from refresh_tokens where hash = $1 for no key update', [hash]);
}

/** Notes that a refresh token was used for its successor. */
export async function useRefreshToken(
  db: Queryable,
  { hash, sealedSuccessor }: { hash: Buffer; sealedSuccessor: string },
): Promise<void> {
  const { rowCount } = await db.query(
    `update refresh_tokens set used_at = clock_timestamp(), sealed_successor = $2 where hash = $1 and used_at is null`,
    [hash, sealedSuccessor],
  );
  if (rowCount !== 1) throw new Error('A refresh token is used once.');
}

/**
 * Deletes tokens that expired a week ago or earlier, at most `limit` of them. Until then whoever uses one for the second
 * time ends its session. Call it again while it returns `limit`.
 * @returns how many were deleted
 */
export async function deleteExpiredRefreshTokens(db: Queryable, { limit }: { limit: number }): Promise<number> {
  const { rowCount } = await db.query(
    `delete from refresh_tokens where hash in (
       select hash from refresh_tokens where expires_at < now() - interval '7 days'
       order by expires_at limit $1 for update skip locked)`,
    [limit],
  );
  return rowCount ?? 0;
}
