import { type Counted, countPresent, lockCounted } from '../shared/db/plan-counts.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { type Plan, planCounts } from '../shared/domain/plans.ts';
import { PurserError } from '../shared/errors.ts';

const words: Readonly<Record<Counted, string>> = {
  agents: 'agents',
  webhooks: 'webhooks',
  x402Sessions: 'active x402 sessions',
};

/**
 * Refuses one more of a kind than the account's plan allows. Runs inside of the database transaction that adds it, right
 * after the claim of its Idempotency-Key: what several add at once is counted together. On a plan that does not limit the
 * kind it does nothing.
 * @throws PurserError 403
 */
export async function requireRoom(
  db: Queryable,
  { accountId, plan, kind }: { accountId: string; plan: Plan; kind: Counted },
): Promise<void> {
  const limit = planCounts[plan][kind];
  if (limit === null) return;
  await lockCounted(db, { accountId, kind });
  const count = await countPresent(db, { accountId, kind });
  if (count < limit) return;
  throw new PurserError(
    'insufficient_permissions',
    `The ${plan} plan allows ${limit} ${words[kind]}; this account has ${count}. Delete one that is not needed, or have the operator set another plan.`,
    { details: { plan, limit, count } },
  );
}
