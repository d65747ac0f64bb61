import { compareDecimals, formatAmount, isDecimal } from '../money.ts';
import type { PolicyContext, StoredPolicy, Violation } from './types.ts';

/** Rules of type `spending_limit`, as on the wire. Amounts are in units of the token that is sent. */
interface SpendingLimitRules {
  /** Highest amount of one payment; `amount <= limit` passes. */
  readonly max_transaction_amount: string;
}

/**
 * Judges the size of one payment. Compared as decimals, so that a limit finer than the token's smallest unit is exact too.
 */
export function evaluateSpendingLimit(policy: StoredPolicy, { payment }: PolicyContext): readonly Violation[] {
  const limit = (policy.rules as Partial<SpendingLimitRules> | null)?.max_transaction_amount;
  if (typeof limit !== 'string' || !isDecimal(limit))
    throw new Error(`Policy ${policy.id} has no readable max_transaction_amount.`);
  const attempted = formatAmount(payment.amountMinor, payment.decimals);
  if (compareDecimals(attempted, limit) <= 0) return [];
  return [
    {
      policy_id: policy.id,
      policy_type: policy.type,
      rule: 'max_transaction_amount',
      limit,
      attempted,
      used: null,
      remaining: null,
      token: payment.token,
      resets_at: null,
    },
  ];
}
