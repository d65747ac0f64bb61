import { TypedSearchAttributes } from '@temporalio/common';
import type { X402PaymentRow } from './db/x402-payments.ts';
import type { SessionRow } from './db/x402-sessions.ts';
import { formatAmount } from './domain/money.ts';
import { queues, searchAttributes, type X402PaymentInput, type X402SessionInput } from './temporal.ts';

/** As for a transaction: by the row alone, again after it was terminated, and taken over when a worker dies. */
const common = {
  taskQueue: queues.wallet,
  workflowTaskTimeout: '5s',
  workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
} as const;

/** Options that start workflow `x402Payment` for a row; the same for everybody who may start it. */
export function x402PaymentStart(row: X402PaymentRow) {
  const input: X402PaymentInput = { ledgerId: row.id };
  const amount = formatAmount(BigInt(row.amount_minor), row.decimals);
  return {
    ...common,
    workflowId: row.id,
    args: [input] as [X402PaymentInput],
    typedSearchAttributes: new TypedSearchAttributes([
      { key: searchAttributes.accountId, value: row.account_id },
      { key: searchAttributes.agentId, value: row.agent_id },
      { key: searchAttributes.chain, value: row.chain },
      { key: searchAttributes.txStatus, value: 'pending' },
    ]),
    // Without the URL: it may hold what is not for everybody who looks at workflows.
    staticSummary: `${amount} ${row.token} on ${row.chain} to ${row.to_address} out of ${row.session_id}`,
  };
}

/** Options that start workflow `x402Session` for a row; the same for everybody who may start it. */
export function x402SessionStart(row: Omit<SessionRow, 'status'>) {
  const input: X402SessionInput = { sessionId: row.id };
  const budget = formatAmount(BigInt(row.budget_minor), row.decimals);
  return {
    ...common,
    workflowId: row.id,
    args: [input] as [X402SessionInput],
    typedSearchAttributes: new TypedSearchAttributes([
      { key: searchAttributes.accountId, value: row.account_id },
      { key: searchAttributes.agentId, value: row.agent_id },
      { key: searchAttributes.chain, value: row.chain },
    ]),
    staticSummary: `Budget of ${budget} ${row.token} on ${row.chain} until ${row.expires_at.toISOString()}`,
  };
}
