import { familyOf } from './chain/families.ts';
import type { ShownAttempt, TransactionRow } from './db/transactions.ts';
import { formatAmount } from './domain/money.ts';

/** A transaction as on the wire, in answers and in events. */
export function renderTransaction(row: TransactionRow) {
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
    fee: renderFee(row),
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
    attempts: (row.attempts ?? []).map((attempt) => renderAttempt(attempt, row)),
    warnings: row.decision?.warnings ?? [],
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** Also of a payment on a chain that is no longer served here. */
function renderFee({ chain, fee_minor: minor }: TransactionRow): string | null {
  return minor === null ? null : formatAmount(BigInt(minor), familyOf(chain).feeDecimals);
}

function renderApproval({ approval_id: id, approval_status: status, approval_expires_at: expiresAt }: TransactionRow) {
  return id && status && expiresAt ? { id, status, expires_at: expiresAt.toISOString() } : null;
}

/** One signed transaction of a payment: what it offers, and whether it is the one that the chain has taken. */
function renderAttempt(
  { hash, raw, purpose, block_number, succeeded, is_final, offer, created_at }: ShownAttempt,
  { chain }: TransactionRow,
) {
  const { max_fee_per_gas, max_priority_fee_per_gas, fee_rate, expires_at } = offer ?? familyOf(chain).offerOf(raw);
  return {
    hash,
    purpose: purpose === 'payment' ? 'payment' : 'cancel',
    status: block_number === null ? (is_final ? 'replaced' : 'pending') : succeeded ? 'mined' : 'reverted',
    max_fee_per_gas,
    max_priority_fee_per_gas,
    fee_rate,
    expires_at,
    block_number,
    created_at: new Date(created_at).toISOString(),
  };
}
