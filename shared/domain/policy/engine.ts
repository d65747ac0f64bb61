import { z } from 'zod';
import { formatAmount } from '../money.ts';
import * as table from './table.ts';
import type {
  ApprovalDemand,
  Check,
  Judgement,
  PolicyContext,
  PolicyKind,
  PolicyPayment,
  PolicyWarning,
  RuleWords,
  StoredPolicy,
  Usage,
  Violation,
} from './types.ts';

export type PolicyType = keyof typeof table;

/** The closed table of what can be written and judged. */
export const policyKinds = table as unknown as Readonly<Record<PolicyType, PolicyKind>>;

/** What was decided, as it is stored with the payment. */
export interface Decision {
  readonly outcome: 'allow' | 'require_approval' | 'deny';
  /** Every broken rule, in the order of the policies; empty unless denied. */
  readonly violations: readonly Violation[];
  /** Every policy that wants a person to agree; empty unless approval is required. */
  readonly approvals: readonly ApprovalDemand[];
  readonly warnings: readonly PolicyWarning[];
}

/** A rule that was examined, broken or not, with the policy that it belongs to. */
export interface Finding extends Violation {
  readonly passed: boolean;
}

export interface Evaluation {
  readonly decision: Decision;
  /** Every rule that applied: what a client is shown as headroom, and what the audit log keeps. */
  readonly findings: readonly Finding[];
  /** Every policy that wants a person to agree, also where the payment is denied: a schedule may open again. */
  readonly demands: readonly ApprovalDemand[];
}

/** Rules were normalised when they were written, so that reading them back asks for no registry. */
const storedWords: RuleWords = { address: z.string().min(1), token: z.string().min(1) };
const storedRules = Object.fromEntries(
  Object.entries(policyKinds).map(([type, kind]) => [type, kind.rules(storedWords)]),
) as Readonly<Record<PolicyType, z.ZodType>>;

/**
 * Judges a payment against all policies of its agent. Pure: the caller reads policies and usage, and holds the lock.
 * All must pass; denials come before approvals. A policy that cannot be judged denies.
 * @param defaultDeny whether the account denies what no policy speaks about
 * @param usage what the agent has consumed, this payment not counted; see {@link windowsOf}
 * @param now instant of the decision
 */
export function evaluate({
  payment,
  policies,
  usage,
  now,
  defaultDeny,
}: {
  payment: PolicyPayment;
  policies: readonly StoredPolicy[];
  usage: Usage;
  now: Date;
  defaultDeny: boolean;
}): Evaluation {
  if (policies.length === 0 && defaultDeny) return denyByDefault(payment);
  const judged = policies.map((policy) => ({ policy, judgement: judge(policy, { payment, usage, now }) }));
  const findings = judged.flatMap(({ policy, judgement }) =>
    judgement.checks.map((check) => findingOf(policy, payment, check)),
  );
  const violations = findings.filter(({ passed }) => !passed).map(({ passed: _, ...violation }) => violation);
  const warnings = judged.flatMap(({ policy, judgement }) =>
    (judgement.warnings ?? []).map((warning) => ({ ...warning, policy_id: policy.id })),
  );
  const demands = judged.flatMap(({ policy, judgement }) =>
    judgement.approval ? [{ policy_id: policy.id, ...judgement.approval }] : [],
  );
  const outcome = violations.length > 0 ? 'deny' : demands.length > 0 ? 'require_approval' : 'allow';
  const approvals = outcome === 'require_approval' ? demands : [];
  return { decision: { outcome, violations, approvals, warnings }, findings, demands };
}

/** Windows in milliseconds whose usage the policies need; what cannot be read needs none, and denies. */
export function windowsOf(policies: readonly StoredPolicy[]): number[] {
  const windows = policies.flatMap((policy) => {
    try {
      const { kind, rules } = read(policy);
      return [...kind.windowsMs(rules)];
    } catch {
      return [];
    }
  });
  return [...new Set(windows)];
}

/** A broken rule in one sentence. */
export function explainViolation(violation: Violation): string {
  if (violation.rule === 'default_deny')
    return 'The agent has no policy, and its account denies payments that no policy allows (default_deny).';
  if (violation.rule === 'engine' || !isPolicyType(violation.policy_type))
    return `Policy ${violation.policy_id} could not be judged, so the payment is denied.`;
  return policyKinds[violation.policy_type].explain(violation);
}

function judge(policy: StoredPolicy, context: PolicyContext): Judgement {
  try {
    const { kind, rules } = read(policy);
    return kind.judge(rules, context);
  } catch {
    // An unreadable policy is still somebody's wish to be protected: deny, and name it.
    const attempted = attemptedAmount(context.payment);
    return { checks: [{ ...uncounted, rule: 'engine', limit: null, attempted, passed: false }] };
  }
}

function isPolicyType(type: string | null): type is PolicyType {
  return type !== null && Object.hasOwn(policyKinds, type);
}

/** @throws Error for an unknown type, ZodError for rules that its schema refuses */
function read({ type, rules }: StoredPolicy): { kind: PolicyKind; rules: unknown } {
  if (!isPolicyType(type)) throw new Error(`Policy type ${type} is not known.`);
  return { kind: policyKinds[type], rules: storedRules[type].parse(rules) };
}

/** What the payment asks for, in units of its token. */
function attemptedAmount(payment: PolicyPayment): string {
  return formatAmount(payment.amountMinor, payment.decimals);
}

const uncounted = { used: null, remaining: null, resets_at: null } as const;

function findingOf(policy: StoredPolicy, payment: PolicyPayment, check: Check): Finding {
  const { passed, ...told } = check;
  const { rule, ...rest } = told;
  return { policy_id: policy.id, policy_type: policy.type, rule, ...rest, token: payment.token, passed };
}

function denyByDefault(payment: PolicyPayment): Evaluation {
  const attempted = attemptedAmount(payment);
  const violation: Violation = {
    policy_id: null,
    policy_type: null,
    rule: 'default_deny',
    limit: null,
    attempted,
    ...uncounted,
    token: payment.token,
  };
  const decision = { outcome: 'deny' as const, violations: [violation], approvals: [], warnings: [] };
  return { decision, findings: [{ ...violation, passed: false }], demands: [] };
}
