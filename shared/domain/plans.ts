/** What an account has paid for, or was given. */
export const plans = ['starter', 'growth', 'enterprise'] as const;
export type Plan = (typeof plans)[number];

/** How many requests each key, or each person, may make; null: no limit. */
export interface RequestLimits {
  /** In any 60 seconds. */
  readonly perMinute: number | null;
  /** On a day of UTC. */
  readonly perDay: number | null;
  /** Under way at once. */
  readonly concurrent: number | null;
}

/** How many of each an account may have; null: no limit. */
export interface Counts {
  readonly agents: number | null;
  readonly webhooks: number | null;
  /** Active ones. */
  readonly x402Sessions: number | null;
}

const unlimited: RequestLimits = { perMinute: null, perDay: null, concurrent: null };

/** By plan; what an enterprise account has of its own is set by an operator. */
const requestLimits: Readonly<Record<Plan, RequestLimits>> = {
  starter: { perMinute: 60, perDay: 10_000, concurrent: 5 },
  growth: { perMinute: 300, perDay: 100_000, concurrent: 25 },
  enterprise: unlimited,
};

/** By plan. */
export const planCounts: Readonly<Record<Plan, Counts>> = {
  starter: { agents: 10, webhooks: 10, x402Sessions: 50 },
  growth: { agents: 100, webhooks: 50, x402Sessions: 500 },
  enterprise: { agents: null, webhooks: null, x402Sessions: null },
};

/** Plans that may limit the networks from which they are used. */
export const plansWithAllowlist: readonly Plan[] = ['growth', 'enterprise'];

/** @param own what the account has of its own; null members fall back to the plan's */
export function requestLimitsOf({ plan, own }: { plan: Plan; own: RequestLimits }): RequestLimits {
  const ofPlan = requestLimits[plan];
  return {
    perMinute: own.perMinute ?? ofPlan.perMinute,
    perDay: own.perDay ?? ofPlan.perDay,
    concurrent: own.concurrent ?? ofPlan.concurrent,
  };
}
