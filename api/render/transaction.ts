import type { Registry } from '../../shared/chain/registry.ts';
import type { TransactionRow } from '../../shared/db/transactions.ts';
import { formatAmount } from '../../shared/domain/money.ts';

/** Wei a coin: also for old payments on an EVM chain that is no longer served here. */
const evmNativeDecimals = 18;

/** A transaction as on the wire. */
export function renderTransaction(row: TransactionRow, { registry }: { registry: Registry }) {
  const feeDecimals = registry.chain(row.chain)?.tokens[0]?.decimals ?? evmNativeDecimals;
  return {
    id: row.id,
    hash: row.hash,
    agent_id: row.agent_id,
    direction: 'outbound',
    type: 'transfer',
    from_address: row.from_address,
    to_address: row.to_address,
    amount: formatAmount(BigInt(row.amount_minor), row.decimals),
    token: row.token,
    chain: row.chain,
    fee: row.fee_minor === null ? null : formatAmount(BigInt(row.fee_minor), feeDecimals),
    status: row.status,
    status_detail: row.status_detail,
    failure_code: row.failure_code,
    failure_message: row.failure_message,
    memo: row.memo,
    nonce: row.nonce === null ? null : Number(row.nonce),
    block_number: row.block_number === null ? null : Number(row.block_number),
    confirmations: row.confirmations,
    approval: renderApproval(row),
    warnings: row.decision?.warnings ?? [],
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function renderApproval({ approval_id: id, approval_status: status, approval_expires_at: expiresAt }: TransactionRow) {
  return id && status && expiresAt ? { id, status, expires_at: expiresAt.toISOString() } : null;
}
