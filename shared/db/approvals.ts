import type { ApprovalDemand } from '../domain/policy/types.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export type ApprovalStatus = 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled';

export interface ApprovalRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly transaction_id: string;
  readonly policy_id: string;
  readonly threshold: string;
  readonly required_approvals: number;
  readonly approvers: readonly string[];
  readonly status: ApprovalStatus;
  readonly expires_at: Date;
  readonly created_at: Date;
  readonly decided_at: Date | null;
}

/** Asks a person, as one policy wants it; once for each payment and policy. @returns the question, if it is a new one */
export async function insertApproval(
  db: Queryable,
  {
    accountId,
    agentId,
    transactionId,
    demand,
    now,
  }: { accountId: string; agentId: string; transactionId: string; demand: ApprovalDemand; now: Date },
): Promise<ApprovalRow | undefined> {
  const { rows } = await db.query<ApprovalRow>(
    `insert into approvals (id, account_id, agent_id, transaction_id, policy_id, threshold, required_approvals,
                            approvers, expires_at, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz + $10 * interval '1 second', $9)
     on conflict (transaction_id, policy_id) where status in ('pending', 'approved') do nothing
     returning *`,
    [
      newId('apr'),
      accountId,
      agentId,
      transactionId,
      demand.policy_id,
      demand.threshold,
      demand.required_approvals,
      demand.approvers,
      now,
      demand.timeout_seconds,
    ],
  );
  return rows[0];
}

export async function approvalsOfTransaction(
  db: Queryable,
  { transactionId }: { transactionId: string },
): Promise<ApprovalRow[]> {
  const { rows } = await db.query<ApprovalRow>(
    'select * from approvals where transaction_id = $1 order by expires_at, id',
    [transactionId],
  );
  return rows;
}

/** Ends what nobody decided in time. @returns what this call ended */
export async function expireApprovals(
  db: Queryable,
  { transactionId, now }: { transactionId: string; now: Date },
): Promise<ApprovalRow[]> {
  const { rows } = await db.query<ApprovalRow>(
    `update approvals set status = 'expired', decided_at = $2
     where transaction_id = $1 and status = 'pending' and expires_at <= $2
     returning *`,
    [transactionId, now],
  );
  return rows;
}

/** Withdraws the questions that need no answer any more: all, or those of policies that ask no longer. */
export async function cancelApprovals(
  db: Queryable,
  { transactionId, keptPolicyIds = [] }: { transactionId: string; keptPolicyIds?: readonly string[] },
): Promise<void> {
  await db.query(
    `update approvals set status = 'cancelled', decided_at = now()
     where transaction_id = $1 and status = 'pending' and policy_id <> all ($2::text[])`,
    [transactionId, keptPolicyIds],
  );
}
