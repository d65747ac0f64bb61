import { policiesOfAgent } from './db/policies.ts';
import type { Queryable } from './db/pool.ts';
import { readUsage } from './db/usage.ts';
import { type Evaluation, evaluate, windowsOf } from './domain/policy/engine.ts';
import type { PolicyPayment } from './domain/policy/types.ts';
import { createUsage } from './domain/policy/usage.ts';
import type { PaymentFacts } from './payment.ts';

/**
 * Judges a payment by its agent's policies and usage as they stand in this database transaction. Reads only; whoever
 * goes on to reserve holds the agent's lock.
 * @param paymentId the payment, if it is stored: what it has reserved is not counted against itself
 */
export async function judgePayment(
  db: Queryable,
  { agentId, payment, now, paymentId }: { agentId: string; payment: PolicyPayment; now: Date; paymentId?: string },
): Promise<Evaluation> {
  const { policies, defaultDeny } = await policiesOfAgent(db, { agentId });
  const windowsMs = windowsOf(policies);
  const entries = await readUsage(db, { agentId, windowsMs, now, exceptPaymentId: paymentId });
  return evaluate({ payment, policies, usage: createUsage({ windowsMs, entries }), now, defaultDeny });
}

/** Judges a stored payment; see {@link judgePayment}. */
export function judgeStored(db: Queryable, row: PaymentFacts, now: Date): Promise<Evaluation> {
  const payment = {
    chain: row.chain,
    token: row.token,
    decimals: row.decimals,
    amountMinor: BigInt(row.amount_minor),
    toAddress: row.to_address,
  };
  return judgePayment(db, { agentId: row.agent_id, payment, now, paymentId: row.id });
}
