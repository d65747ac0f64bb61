import type { Address } from 'viem';
import type { Queryable } from './pool.ts';

export const sessionStatuses = ['active', 'expired', 'deleted'] as const;
export type SessionStatus = (typeof sessionStatuses)[number];

/** A row of `x402_sessions`, with its status by the clock of the database. Columns of type numeric are decimal strings. */
export interface SessionRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly wallet_id: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Address;
  readonly decimals: number;
  readonly budget_minor: string;
  readonly spent_minor: string;
  readonly allowed_urls: readonly string[] | null;
  readonly status: SessionStatus;
  readonly expires_at: Date;
  readonly deleted_at: Date | null;
  readonly released_at: Date | null;
  readonly created_at: Date;
}

export interface NewSession {
  readonly id: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Address;
  readonly decimals: number;
  readonly budgetMinor: bigint;
  readonly allowedUrls: readonly string[] | undefined;
  readonly ttlSeconds: number;
}

/** A late timer never shows a session as active whose time is over. */
const statusNow = `case when deleted_at is not null then 'deleted'
  when released_at is not null or expires_at <= clock_timestamp() then 'expired' else 'active' end`;
const columns = `x402_sessions.*, ${statusNow} as status`;

/** Stores a session; what it holds of the wallet follows in the same database transaction. */
export async function insertSession(db: Queryable, session: NewSession): Promise<SessionRow> {
  const { rows } = await db.query<SessionRow>(
    `insert into x402_sessions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, budget_minor,
                                allowed_urls, created_at, expires_at)
     select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now, now + $11 * interval '1 second'
     from (select clock_timestamp()::timestamptz(3) as now) clock
     returning ${columns}`,
    [
      session.id,
      session.accountId,
      session.agentId,
      session.walletId,
      session.chain,
      session.token,
      session.asset,
      session.decimals,
      session.budgetMinor.toString(),
      session.allowedUrls ?? null,
      session.ttlSeconds,
    ],
  );
  return rows[0]!;
}

/** The session, if it is this account's. */
export async function findSession(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<SessionRow | undefined> {
  const { rows } = await db.query<SessionRow>(
    `select ${columns} from x402_sessions where id = $1 and account_id = $2`,
    [id, accountId],
  );
  return rows[0];
}

/** The session, whoever's it is: for workers. */
export async function getSession(db: Queryable, { id }: { id: string }): Promise<SessionRow | undefined> {
  const { rows } = await db.query<SessionRow>(`select ${columns} from x402_sessions where id = $1`, [id]);
  return rows[0];
}

/** The session, locked until the database transaction ends. Lock the agent first (order: agent, session, payment, wallet). */
export async function lockSession(db: Queryable, { id }: { id: string }): Promise<SessionRow | undefined> {
  // The status is computed after the lock was waited for, by a clock that goes on.
  await db.query('select from x402_sessions where id = $1 for update', [id]);
  return getSession(db, { id });
}

export interface SessionFilter {
  readonly accountId: string;
  readonly agentId?: string | undefined;
  readonly status?: SessionStatus | undefined;
}

const filtered = `account_id = $1 and ($2::text is null or agent_id = $2) and ($3::text is null or ${statusNow} = $3)`;

/** One page, newest first. */
export async function listSessions(
  db: Queryable,
  { accountId, agentId, status, limit, offset }: SessionFilter & { limit: number; offset: number },
): Promise<SessionRow[]> {
  const { rows } = await db.query<SessionRow>(
    `select ${columns} from x402_sessions where ${filtered} order by created_at desc, id desc limit $4 offset $5`,
    [accountId, agentId ?? null, status ?? null, limit, offset],
  );
  return rows;
}

export async function countSessions(db: Queryable, { accountId, agentId, status }: SessionFilter): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from x402_sessions where ${filtered}`,
    [accountId, agentId ?? null, status ?? null],
  );
  return rows[0]!.count;
}

/**
 * Takes an amount out of the budget of a session that is active at this moment and has so much left; the one statement
 * by which a budget is spent.
 * @returns whether it was taken
 */
export async function spendBudget(db: Queryable, { id, minor }: { id: string; minor: bigint }): Promise<boolean> {
  const { rowCount } = await db.query(
    `update x402_sessions set spent_minor = spent_minor + $2
     where id = $1 and released_at is null and expires_at > clock_timestamp() and spent_minor + $2 <= budget_minor`,
    [id, minor.toString()],
  );
  return rowCount === 1;
}

/** Gives back what a payment took that came to nothing. */
export async function restoreBudget(db: Queryable, { id, minor }: { id: string; minor: bigint }): Promise<void> {
  await db.query('update x402_sessions set spent_minor = spent_minor - $2 where id = $1', [id, minor.toString()]);
}

/** Sets what is spent to what the payments took that have not come to nothing. Hold the agent's and the session's lock. */
export async function recountSpent(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update x402_sessions set spent_minor = (
       select coalesce(sum(amount_minor + fee_minor), 0) from x402_payments
       where session_id = $1 and (status = 'pending' or (status = 'completed' and settlement <> 'expired')))
     where id = $1`,
    [id],
  );
}

/**
 * Ends a session, once: by deletion, or because its time is over. Hold the agent's and the session's lock.
 * @returns whether it was this call that ended it
 */
export async function markReleased(
  db: Queryable,
  { id, by }: { id: string; by: 'deletion' | 'expiry' },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update x402_sessions set released_at = clock_timestamp(),
            deleted_at = case when $2 = 'deletion' then clock_timestamp() end
     where id = $1 and released_at is null and ($2 = 'deletion') = (expires_at > clock_timestamp())`,
    [id, by],
  );
  return rowCount === 1;
}
