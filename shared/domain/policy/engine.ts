import { formatAmount } from '../money.ts';
import { evaluateSpendingLimit } from './spending-limit.ts';
import type { PolicyContext, PolicyEvaluator, PolicyPayment, PolicyType, StoredPolicy, Violation } from './types.ts';

/** The closed table of what can be judged. */
const evaluators: Readonly<Record<PolicyType, PolicyEvaluator>> = {
  spending_limit: evaluateSpendingLimit,
};

export interface Evaluation {
  readonly outcome: 'allow' | 'deny';
  /** Every broken rule, in the order of the policies; empty when allowed. */
  readonly violations: readonly Violation[];
}

/**
 * Judges a payment against all policies of its agent. Pure: the caller reads the policies and holds the lock.
 * All must pass. No policy: allowed. A policy that cannot be judged denies.
 * @param now instant of the decision
 */
export function evaluate({
  payment,
  policies,
  now,
}: {
  payment: PolicyPayment;
  policies: readonly StoredPolicy[];
  now: Date;
}): Evaluation {
  const violations = policies.flatMap((policy) => judge(policy, { payment, now }));
  return { outcome: violations.length === 0 ? 'allow' : 'deny', violations };
}

function judge(policy: StoredPolicy, context: PolicyContext): readonly Violation[] {
  try {
    return evaluatorOf(policy)(policy, context);
  } catch {
    // An unreadable policy is still somebody's wish to be protected: deny, and name it.
    return [unjudgeable(policy, context.payment)];
  }
}

function evaluatorOf(policy: StoredPolicy): PolicyEvaluator {
  if (!Object.hasOwn(evaluators, policy.type)) throw new Error(`Policy type ${policy.type} is not known.`);
  return evaluators[policy.type as PolicyType];
}

function unjudgeable(policy: StoredPolicy, payment: PolicyPayment): Violation {
  return {
    policy_id: policy.id,
    policy_type: policy.type,
    rule: 'engine',
    limit: null,
    attempted: formatAmount(payment.amountMinor, payment.decimals),
    used: null,
    remaining: null,
    token: payment.token,
    resets_at: null,
  };
}
