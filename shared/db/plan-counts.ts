import type { Counts } from '../domain/plans.ts';
import type { Queryable } from './pool.ts';

/** What plans limit by number. */
export type Counted = keyof Counts;

const present: Readonly<Record<Counted, string>> = {
  agents: 'agents where account_id = $1 and deleted_at is null',
  webhooks: 'webhooks where account_id = $1 and deleted_at is null',
  // By the clock: the worker may be late to end those whose time is over.
  x402Sessions: 'x402_sessions where account_id = $1 and released_at is null and expires_at > clock_timestamp()',
};

/**
 * Keeps everybody else from adding one of a kind to an account, until the database transaction ends. After the claim of
 * an Idempotency-Key, before every other lock.
 */
export async function lockCounted(
  db: Queryable,
  { accountId, kind }: { accountId: string; kind: Counted },
): Promise<void> {
  await db.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`count of ${kind} of ${accountId}`]);
}

/** How many of a kind an account has. Exact under `lockCounted`. */
export async function countPresent(
  db: Queryable,
  { accountId, kind }: { accountId: string; kind: Counted },
): Promise<number> {
  const { rows } = await db.query<{ count: number }>(`select count(*)::int as count from ${present[kind]}`, [
    accountId,
  ]);
  return rows[0]!.count;
}
