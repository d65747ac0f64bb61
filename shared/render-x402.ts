import type { X402PaymentRow } from './db/x402-payments.ts';
import type { SessionRow } from './db/x402-sessions.ts';
import { formatAmount } from './domain/money.ts';

/** A session as on the wire, in answers and in events. */
export function renderSession(row: SessionRow) {
  const budget = BigInt(row.budget_minor);
  const spent = BigInt(row.spent_minor);
  const write = (minor: bigint) => formatAmount(minor, row.decimals);
  return {
    id: row.id,
    agent_id: row.agent_id,
    budget_limit: write(budget),
    budget_spent: write(spent),
    budget_remaining: write(budget - spent),
    chain: row.chain,
    token: row.token,
    status: row.status,
    allowed_urls: row.allowed_urls,
    expires_at: row.expires_at.toISOString(),
    created_at: row.created_at.toISOString(),
  };
}

/** An x402 payment as on the wire, in answers and in events. */
export function renderX402Payment(row: X402PaymentRow) {
  const write = (minor: string) => formatAmount(BigInt(minor), row.decimals);
  return {
    ledger_id: row.id,
    session_id: row.session_id,
    amount: write(row.amount_minor),
    fee_amount: write(row.fee_minor),
    fee_rate: row.fee_rate,
    token: row.token,
    chain: row.chain,
    status: row.status,
    status_detail: row.status_detail,
    payment_signature: row.payment_signature,
    payment_header: row.x402_version === 1 ? ('X-PAYMENT' as const) : ('PAYMENT-SIGNATURE' as const),
    x402_version: row.x402_version,
    target_url: row.target_url,
    method: row.method,
    pay_to: row.to_address,
    valid_before: row.valid_before === null ? null : new Date(Number(row.valid_before) * 1000).toISOString(),
    settlement: renderSettlement(row),
    failure_code: row.failure_code,
    failure_message: row.failure_message,
    approval: renderQuestion(row),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** What has become of the authorisation; null before there is one. */
function renderSettlement({ settlement, tx_hash, settled_at }: X402PaymentRow) {
  return settlement && { status: settlement, tx_hash, settled_at: settled_at?.toISOString() ?? null };
}

function renderQuestion({ approval_id: id, approval_status: status, approval_expires_at: expiresAt }: X402PaymentRow) {
  return id && status && expiresAt ? { id, status, expires_at: expiresAt.toISOString() } : null;
}
