import { TypedSearchAttributes } from '@temporalio/common';
import type { TransactionRow } from './db/transactions.ts';
import { formatAmount } from './domain/money.ts';
import { queues, searchAttributes, type TransactionInput } from './temporal.ts';

/**
 * Options that start workflow `transaction` for a row; the same for everybody who may start it.
 * The reuse policy lets one that was terminated by hand be started again; that nothing is sent twice is the database's work.
 */
export function transactionStart(row: TransactionRow) {
  const input: TransactionInput = { transactionId: row.id };
  const amount = formatAmount(BigInt(row.amount_minor), row.decimals);
  return {
    workflowId: row.id,
    taskQueue: queues.wallet,
    // When a worker dies in the middle of a step that is SQL only, another one takes over after this long.
    workflowTaskTimeout: '5s' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' as const,
    args: [input] as [TransactionInput],
    typedSearchAttributes: new TypedSearchAttributes([
      { key: searchAttributes.accountId, value: row.account_id },
      { key: searchAttributes.agentId, value: row.agent_id },
      { key: searchAttributes.chain, value: row.chain },
      { key: searchAttributes.txStatus, value: 'pending' },
    ]),
    staticSummary: `${amount} ${row.token} on ${row.chain} to ${row.to_address}`,
  };
}
