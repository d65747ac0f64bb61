import { approvalsOfTransaction, expireApprovals } from '../shared/db/approvals.ts';
import type { Clock } from '../shared/db/clock.ts';
import { insertEvent } from '../shared/db/events.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { type TransactionRow, takeLongestWaiting } from '../shared/db/transactions.ts';
import { endUnsent, lockAgentAndTransaction } from './end-payment.ts';
import { judge } from './evaluate-policy.ts';

export type AwaitApprovalResult =
  /** Nobody has to be asked (any more): on to the next step. */
  | { readonly outcome: 'go' }
  /** `leftMs`: time until the next question expires. */
  | { readonly outcome: 'waiting'; readonly leftMs: number }
  | { readonly outcome: 'expired'; readonly wake?: string }
  | { readonly outcome: 'ended' };

/**
 * Looks whether a payment still waits for a person, and ends it when nobody has answered in time. Reads only the
 * database, so that a signal sent by hand decides nothing.
 */
export function createAwaitApproval({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function awaitApproval(transactionId: string): Promise<AwaitApprovalResult> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { outcome: 'ended' };
      const now = await clock(db);
      const expired = await expireApprovals(db, { transactionId, now });
      if (expired.length > 0) {
        for (const { id, policy_id } of expired) await noteExpiry(db, row, { id, policyId: policy_id });
        const message = `Nobody approved the payment until ${expired[0]!.expires_at.toISOString()}.`;
        await endUnsent(db, row, { code: 'approval_timeout', message });
        const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
        return wake === undefined ? { outcome: 'expired' } : { outcome: 'expired', wake };
      }
      const pending = (await approvalsOfTransaction(db, { transactionId })).filter(
        ({ status }) => status === 'pending',
      );
      const { demands } = await judge(db, row, now);
      // A policy that was removed meanwhile asks no longer; what else has changed is for the second evaluation.
      const asking = pending.filter(({ policy_id }) => demands.some((each) => each.policy_id === policy_id));
      if (asking.length === 0) return { outcome: 'go' };
      return { outcome: 'waiting', leftMs: Math.max(1, asking[0]!.expires_at.getTime() - now.getTime()) };
    });
  };
}

function noteExpiry(
  db: Queryable,
  row: TransactionRow,
  { id, policyId }: { id: string; policyId: string },
): Promise<void> {
  return insertEvent(db, {
    accountId: row.account_id,
    agentId: row.agent_id,
    type: 'approval.expired',
    resourceType: 'approval',
    resourceId: id,
    data: { id, transaction_id: row.id, policy_id: policyId },
  });
}
