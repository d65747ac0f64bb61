import { readSigned } from './chain/evm/read-signed.ts';
import type { ShownAttempt, TransactionRow } from './db/transactions.ts';
import { formatAmount } from './domain/money.ts';

/**
 * Decimals of the coins that fees are paid in, by the namespace of the chain's id (CAIP-2): also of payments on a chain
 * that is no longer served here.
 */
const feeDecimals: Readonly<Record<string, number>> = { eip155: 18, bip122: 8, tron: 6 };

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
    attempts: (row.attempts ?? []).map(renderAttempt),
    warnings: row.decision?.warnings ?? [],
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function renderFee({ id, chain, fee_minor: minor }: TransactionRow): string | null {
  if (minor === null) return null;
  const decimals = feeDecimals[chain.split(':', 1)[0]!];
  if (decimals === undefined) throw new Error(`The coin of ${chain}, on which ${id} was paid, is not known.`);
  return formatAmount(BigInt(minor), decimals);
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
