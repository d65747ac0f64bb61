import type { z } from 'zod';

/** The payment as the engine sees it: what leaves the wallet, in which token, to whom. */
export interface PolicyPayment {
  /** CAIP-2. */
  readonly chain: string;
  /** Symbol in capitals, e.g. `USDC`. */
  readonly token: string;
  readonly decimals: number;
  /** More than zero. */
  readonly amountMinor: bigint;
  /** Normalised by the chain's family. */
  readonly toAddress: string;
}

/** A policy as stored. `rules` were validated when written, but the engine trusts nothing that it reads. */
export interface StoredPolicy {
  readonly id: string;
  readonly type: string;
  readonly rules: unknown;
}

/** One rule as it was examined, in the names of the wire. */
export interface Check {
  /** Member of `rules`. */
  readonly rule: string;
  /** The rule's value in words; null where it is a list too long to be told. */
  readonly limit: string | null;
  /** What the payment asked for: an amount in units of `token`, an address, a count, a time. */
  readonly attempted: string;
  /** Already consumed in the rule's window, this payment not counted; null for rules that do not count. */
  readonly used: string | null;
  /** Still free in the rule's window, before this payment; null for rules that do not count. */
  readonly remaining: string | null;
  /** ISO 8601 instant at which the window next frees something; null where waiting alone frees nothing. */
  readonly resets_at: string | null;
  readonly passed: boolean;
}

/** One rule that the payment breaks, so that an agent can correct itself. */
export interface Violation extends Omit<Check, 'passed'> {
  /** Null where no policy but the account itself, or the balance, stands against the payment. */
  readonly policy_id: string | null;
  readonly policy_type: string | null;
  /** Token of the payment. */
  readonly token: string;
}

/** A person is to be asked, as one policy wants it. */
export interface ApprovalDemand {
  readonly policy_id: string;
  readonly threshold: string;
  readonly required_approvals: number;
  /** E-mail addresses in lower case. */
  readonly approvers: readonly string[];
  readonly timeout_seconds: number;
}

/** Something that the policies' owner should know, though it stops nothing. */
export interface PolicyWarning {
  readonly code: 'limit_without_token';
  readonly policy_id: string;
  readonly message: string;
}

/** What was consumed in one window, of some tokens together. */
export interface Consumed {
  /** In atoms, see money.ts. */
  readonly atoms: bigint;
  readonly count: number;
  /** Instant of the oldest payment that counts by its age; null when there is none (open ones count at any age). */
  readonly oldest: Date | null;
}

/** What the agent has consumed in sliding windows that end now, the payment in question not counted. */
export interface Usage {
  /**
   * @param windowMs one of those that the policies' `windowsMs` named
   * @param tokens symbols that count together; all tokens when left out
   */
  within(windowMs: number, tokens?: readonly string[]): Consumed;
}

/** What is the same for every policy in one evaluation. */
export interface PolicyContext {
  readonly payment: PolicyPayment;
  readonly usage: Usage;
  readonly now: Date;
}

/** The words whose meaning depends on where the policy is written: on the agent's chain and the tokens served. */
export interface RuleWords {
  /** An address that may be paid, brought into its one written form. */
  readonly address: z.ZodType<string>;
  /** A token's symbol, brought into capitals. */
  readonly token: z.ZodType<string>;
}

/** What a type of policy says about one payment. */
export interface Judgement {
  /** Every rule that applies to the payment, passed or not. */
  readonly checks: readonly Check[];
  /** Set when the payment passes only if a person agrees. */
  readonly approval?: Omit<ApprovalDemand, 'policy_id'> | undefined;
  readonly warnings?: readonly Omit<PolicyWarning, 'policy_id'>[];
}

/** One type of policy, whole: a file beside this one, and a line in table.ts. */
export interface PolicyKind<Rules = unknown> {
  /** What the type is for, in a sentence for the reference. */
  readonly description: string;
  /** Rules as they are written and stored; refuses members of other types, and rules that can never pass. */
  readonly rules: (words: RuleWords) => z.ZodType<Rules>;
  /** Sliding windows whose usage is needed to judge. */
  readonly windowsMs: (rules: Rules) => readonly number[];
  /** Judges one payment. Pure. @throws Error when it cannot, which the engine turns into a denial */
  readonly judge: (rules: Rules, context: PolicyContext) => Judgement;
  /** A broken rule in one sentence: which value, which rule, what would be right. */
  readonly explain: (violation: Violation) => string;
}
