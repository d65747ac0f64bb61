import { readSigned } from '../../shared/chain/evm/read-signed.ts';
import type { Registry } from '../../shared/chain/registry.ts';
import type { ShownAttempt, TransactionRow } from '../../shared/db/transactions.ts';
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
    notice: row.notice,
    attempts: (row.attempts ?? []).map(renderAttempt),
    warnings: row.decision?.warnings ?? [],
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function renderApproval({ approval_id: id, approval_status: status, approval_expires_at: expiresAt }: TransactionRow) {
  return id && status && expiresAt ? { id, status, expires_at: expiresAt.toISOString() } : null;
}

/** One signed transaction of a payment: what it offers, and whether it is the one that the chain has taken. */
function renderAttempt({ hash, raw, purpose, block_number, succeeded, is_final, created_at }: ShownAttempt) {
  const { maxFeePerGasWei, maxPriorityFeePerGasWei } = readSigned(raw);
  return {
    hash,
    purpose: purpose === 'payment' ? 'payment' : 'cancel',
    status: block_number === null ? (is_final ? 'replaced' : 'pending') : succeeded ? 'mined' : 'reverted',
    max_fee_per_gas: maxFeePerGasWei.toString(),
    max_priority_fee_per_gas: maxPriorityFeePerGasWei.toString(),
    block_number,
    created_at: new Date(created_at).toISOString(),
  };
}
