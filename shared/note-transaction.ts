import { bySystem, insertAudit } from './db/audit.ts';
import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import { showTransaction } from './db/transactions.ts';
import type { EventType } from './domain/events.ts';
import { renderTransaction } from './render-transaction.ts';

/** Tells the receivers of events what became of a payment, with the payment as it is now; and its end the audit log. */
export async function noteTransaction(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `payment.${string}` },
): Promise<void> {
  const row = (await showTransaction(db, { id }))!;
  const about = { resourceType: 'transaction' as const, resourceId: id, data: renderTransaction(row) };
  const { account_id: accountId, agent_id: agentId } = row;
  await insertEvent(db, { accountId, agentId, type, ...about });
  if (type === 'payment.pending') return;
  const isPaid = type === 'payment.completed';
  const { hash, block_number, fee, failure_code } = about.data;
  await insertAudit(db, {
    ...{ accountId, agentId, acting: bySystem, resourceType: 'transaction', resourceId: id },
    action: isPaid ? 'transaction.confirmed' : 'transaction.failed',
    result: isPaid ? 'success' : 'error',
    metadata: { hash, block_number, fee, failure_code },
  });
}
