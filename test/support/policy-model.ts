import { formatAmount } from '../../shared/domain/money.ts';

/**
 * The rules about limits, as simple as they can be said: every question adds up all payments anew. Slow, and written
 * without a look at how the service counts.
 */
export interface ModelPolicy {
  readonly id: string;
  readonly type: 'spending_limit' | 'velocity_control' | 'human_approval';
  readonly rules: {
    readonly max_transaction_amount?: string;
    readonly daily_limit?: string;
    readonly monthly_limit?: string;
    readonly token?: string;
    readonly max_count?: number;
    readonly window_seconds?: number;
    readonly threshold?: string;
  };
}

export interface ModelPayment {
  readonly id: string;
  readonly token: string;
  /** Units of 10^-18 of the token: none that the model pays with has more digits. */
  readonly amount: bigint;
  state: 'new' | 'open' | 'settled' | 'released' | 'denied';
  instantMs: number;
}

export interface ModelDecision {
  readonly outcome: 'allow' | 'require_approval' | 'deny';
  /** Policy, rule, used and remaining of every broken rule. */
  readonly broken: readonly (readonly [string, string, string | null, string | null])[];
}

const dayMs = 86_400_000;
const pegged = ['USDC', 'USDT', 'DAI'];
const text = (amount: bigint) => formatAmount(amount, 18);

/** A decimal string in units of 10^-18. */
export function units(decimal: string): bigint {
  const [whole = '0', fraction = ''] = decimal.split('.');
  return BigInt(whole + fraction.padEnd(18, '0'));
}

function countsTogether(token: string | undefined, paid: string, other: string): boolean {
  if (token === 'stablecoins') return pegged.includes(other);
  if (token !== undefined) return other === token;
  return pegged.includes(paid) ? pegged.includes(other) : other === paid;
}

function isAbout(token: string | undefined, paid: string): boolean {
  return token === undefined || token === paid || (token === 'stablecoins' && pegged.includes(paid));
}

/** Whether a payment counts in the window that ends now: open at any age, settled while it is younger than the window. */
export function counts(payment: ModelPayment, { nowMs, windowMs }: { nowMs: number; windowMs: number }): boolean {
  return payment.state === 'open' || (payment.state === 'settled' && payment.instantMs > nowMs - windowMs);
}

/** What the policies say about a payment, given all others of the agent. */
export function decide({
  payment,
  policies,
  payments,
  nowMs,
}: {
  payment: ModelPayment;
  policies: readonly ModelPolicy[];
  payments: readonly ModelPayment[];
  nowMs: number;
}): ModelDecision {
  const others = payments.filter((each) => each.id !== payment.id);
  const broken: [string, string, string | null, string | null][] = [];
  let asks = false;
  for (const { id, rules } of policies) {
    if (!isAbout(rules.token, payment.token)) continue;
    if (rules.max_transaction_amount !== undefined && payment.amount > units(rules.max_transaction_amount))
      broken.push([id, 'max_transaction_amount', null, null]);
    for (const [rule, windowMs] of [
      ['daily_limit', dayMs],
      ['monthly_limit', 30 * dayMs],
    ] as const) {
      const limit = rules[rule];
      if (limit === undefined) continue;
      let used = 0n;
      for (const other of others)
        if (countsTogether(rules.token, payment.token, other.token) && counts(other, { nowMs, windowMs }))
          used += other.amount;
      const left = units(limit) - used;
      if (payment.amount > left) broken.push([id, rule, text(used), text(left > 0n ? left : 0n)]);
    }
    if (rules.max_count !== undefined) {
      const windowMs = rules.window_seconds! * 1000;
      const used = others.filter((other) => counts(other, { nowMs, windowMs })).length;
      if (used + 1 > rules.max_count)
        broken.push([id, 'max_count', String(used), String(Math.max(0, rules.max_count - used))]);
    }
    if (rules.threshold !== undefined && payment.amount > units(rules.threshold)) asks = true;
  }
  return { outcome: broken.length > 0 ? 'deny' : asks ? 'require_approval' : 'allow', broken };
}
