import type { ShownApproval } from './db/approvals.ts';
import { formatAmount } from './domain/money.ts';

/** An approval as on the wire, in answers and in events. */
export function renderApproval(row: ShownApproval) {
  return {
    id: row.id,
    transaction_id: row.transaction_id,
    agent_id: row.agent_id,
    policy_id: row.policy_id,
    status: row.status,
    amount: formatAmount(BigInt(row.amount_minor), row.decimals),
    token: row.token,
    chain: row.chain,
    to_address: row.to_address,
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
