import { blockingFreeze, type FreezeRow, noteFrozenPayment } from '../shared/db/freezes.ts';
import type { Queryable } from '../shared/db/pool.ts';
import type { PaymentFacts } from '../shared/payment.ts';

/**
 * Whether a payment has to wait because it is frozen, and notes that it does. For the database transaction in which
 * something is allowed to be signed: a freeze that comes meanwhile waits for its end.
 */
export async function holdFrozen(db: Queryable, row: PaymentFacts): Promise<FreezeRow | undefined> {
  const { id, account_id: accountId, agent_id: agentId } = row;
  const freeze = await blockingFreeze(db, { accountId, agentId });
  if (freeze) await noteFrozenPayment(db, { id, accountId, agentId });
  return freeze;
}
