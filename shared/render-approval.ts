import type { ShownApproval } from './db/approvals.ts';
import { formatAmount } from './domain/money.ts';

/** The payment that a question is about, by the id of its kind. */
export function paymentOf(paymentId: string): { transaction_id: string | null; ledger_id: string | null } {
  const isTransaction = paymentId.startsWith('tx_');
  return { transaction_id: isTransaction ? paymentId : null, ledger_id: isTransaction ? null : paymentId };
}

/** An approval as on the wire, in answers and in events. */
export function renderApproval(row: ShownApproval) {
  return {
    id: row.id,
    ...paymentOf(row.payment_id),
    agent_id: row.agent_id,
    policy_id: row.policy_id,
    status: row.status,
    amount: formatAmount(BigInt(row.amount_minor), row.decimals),
    token: row.token,
    chain: row.chain,
    to_address: row.to_address,
    target_url: row.target_url,
    threshold: row.threshold,
    required_approvals: row.required_approvals,
    approvers: row.approvers,
    decisions: row.decisions,
    notices: row.notices,
    expires_at: row.expires_at.toISOString(),
    created_at: row.created_at.toISOString(),
    decided_at: row.decided_at?.toISOString() ?? null,
  };
}
