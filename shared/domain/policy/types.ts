/** The payment as the engine sees it: what leaves the wallet, and in which token. */
export interface PolicyPayment {
  /** Symbol in capitals, e.g. `USDC`. */
  readonly token: string;
  readonly decimals: number;
  /** More than zero. */
  readonly amountMinor: bigint;
}

/** Types that the engine can judge. A further one is a name here, a file beside this one, and a line in `engine.ts`. */
export type PolicyType = 'spending_limit';

/** A policy as stored. `rules` were validated when written, but the engine trusts nothing that it reads. */
export interface StoredPolicy {
  readonly id: string;
  readonly type: string;
  readonly rules: unknown;
}

/** One rule that the payment breaks, in the names of the wire, so that an agent can correct itself. */
export interface Violation {
  readonly policy_id: string;
  readonly policy_type: string;
  /** Member of `rules` that was broken, or `engine` when the policy itself could not be judged. */
  readonly rule: string;
  /** The rule's value; null when the policy could not be judged. */
  readonly limit: string | null;
  /** What the payment asked for, in units of `token`. */
  readonly attempted: string;
  /** Already consumed in the rule's window; null for rules that do not count. */
  readonly used: string | null;
  /** Still free in the rule's window; null for rules that do not count. */
  readonly remaining: string | null;
  readonly token: string;
  /** ISO 8601 instant at which the window frees something; null for rules that do not count. */
  readonly resets_at: string | null;
}

/** What is the same for every policy in one evaluation. */
export interface PolicyContext {
  readonly payment: PolicyPayment;
  readonly now: Date;
}

/**
 * Judges one policy of its type. Pure.
 * @returns every rule that is broken; empty when the payment passes
 * @throws Error when the rules cannot be read, which the engine turns into a denial
 */
export type PolicyEvaluator = (policy: StoredPolicy, context: PolicyContext) => readonly Violation[];
