import type { Queryable } from './pool.ts';

/** Stores what a sign-in ends with. @param hash SHA-256 of the code */
export async function insertExchangeCode(
  db: Queryable,
  {
    hash,
    accountId,
    userId,
    lifetimeSeconds,
  }: { hash: Buffer; accountId: string; userId: string; lifetimeSeconds: number },
): Promise<void> {
  await db.query(
    `insert into exchange_codes (hash, account_id, user_id, created_at, expires_at)
     values ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 second')`,
    [hash, accountId, userId, lifetimeSeconds],
  );
}

/** How a code stands, by the clock of the database. */
export interface ExchangeCodeRow {
  readonly account_id: string;
  readonly user_id: string;
  /** The session that it was exchanged for; null: it was not. */
  readonly session_id: string | null;
  readonly is_expired: boolean;
}

/** The code, locked until the database transaction ends: of those who exchange it at once, one is the first. */
export async function lockExchangeCode(
  db: Queryable,
  { hash }: { hash: Buffer },
): Promise<ExchangeCodeRow | undefined> {
  const { rows } = await db.query<ExchangeCodeRow>(
    `select account_id, user_id, session_id, expires_at <= clock_timestamp() as is_expired
     from exchange_codes where hash = $1 for update`,
    [hash],
  );
  return rows[0];
}

/** Notes for which session a code was exchanged. */
export async function useExchangeCode(
  db: Queryable,
  { hash, sessionId }: { hash: Buffer; sessionId: string },
): Promise<void> {
  const { rowCount } = await db.query(
    'update exchange_codes set session_id = $2 where hash = $1 and session_id is null',
    [hash, sessionId],
  );
  if (rowCount !== 1) throw new Error('An exchange code is used once.');
}

/** Has codes of an account that nobody has exchanged yet be good for nothing, or one person's. */
export async function deleteOpenExchangeCodes(
  db: Queryable,
  { accountId, userId }: { accountId: string; userId?: string },
): Promise<void> {
  await db.query(
    'delete from exchange_codes where account_id = $1 and ($2::text is null or user_id = $2) and session_id is null',
    [accountId, userId ?? null],
  );
}

/**
 * Deletes codes that expired a day ago or earlier, at most `limit` of them. Call it again while it returns `limit`.
 * @returns how many were deleted
 */
export async function deleteExpiredExchangeCodes(db: Queryable, { limit }: { limit: number }): Promise<number> {
  const { rowCount } = await db.query(
    `delete from exchange_codes where hash in (
       select hash from exchange_codes where expires_at < now() - interval '1 day'
       order by expires_at limit $1 for update skip locked)`,
    [limit],
  );
  return rowCount ?? 0;
}
