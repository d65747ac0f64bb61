import type { Queryable } from './db/pool.ts';
import { reserve } from './db/reservations.ts';
import { toAtoms } from './domain/money.ts';
import type { PaymentFacts } from './payment.ts';

/** Takes a stored payment from its agent's limits, or moves it to this moment. Hold the agent's lock. */
export function reservePayment(db: Queryable, row: PaymentFacts, now: Date): Promise<void> {
  const atoms = toAtoms(BigInt(row.amount_minor), row.decimals);
  const { id: paymentId, account_id: accountId, agent_id: agentId, token } = row;
  return reserve(db, { paymentId, accountId, agentId, token, atoms, now });
}
