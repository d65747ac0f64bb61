import type { Queryable } from './pool.ts';

export type Business = 'transactions' | 'x402_sessions' | 'x402_payments' | 'approvals';

/** Something of an agent that has not come to its end. */
export interface UnfinishedRow {
  readonly kind: Business;
  readonly id: string;
}

/**
 * What of an agent is under way: payments that are not final, sessions that hold their budget, payments out of sessions
 * that may still be settled, questions that wait for an answer. At most so many of each kind, oldest first. Final under
 * the agent's whole lock.
 */
export async function listUnfinished(
  db: Queryable,
  { agentId, limit }: { agentId: string; limit: number },
): Promise<UnfinishedRow[]> {
  const { rows } = await db.query<UnfinishedRow>(
    `(select 'transactions' as kind, id from transactions
      where agent_id = $1 and status = 'pending' order by created_at, id limit $2)
     union all
     (select 'x402_sessions', id from x402_sessions
      where agent_id = $1 and released_at is null order by created_at, id limit $2)
     union all
     (select 'x402_payments', id from x402_payments
      where agent_id = $1 and (status = 'pending' or settlement = 'unsettled') order by created_at, id limit $2)
     union all
     (select 'approvals', id from approvals
      where agent_id = $1 and status = 'pending' order by created_at, id limit $2)`,
    [agentId, limit],
  );
  return rows;
}
