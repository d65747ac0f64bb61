import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import { showTransaction } from './db/transactions.ts';
import type { EventType } from './domain/events.ts';
import { renderTransaction } from './render-transaction.ts';

/** Tells the receivers of events what became of a payment, with the payment as it is now. */
export async function noteTransaction(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `payment.${string}` },
): Promise<void> {
  const row = (await showTransaction(db, { id }))!;
  const about = { resourceType: 'transaction' as const, resourceId: id, data: renderTransaction(row) };
  await insertEvent(db, { accountId: row.account_id, agentId: row.agent_id, type, ...about });
}
