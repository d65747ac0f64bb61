import { insertEvent } from '../shared/db/events.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { lockTransaction, markUnfunded, type TransactionRow } from '../shared/db/transactions.ts';

/**
 * Notes that a pending payment waits for money, and tells the receivers of events when that begins. Hold the
 * transaction's lock.
 * @param notice what is there and what is needed
 * @returns since when it waits; undefined when it is not pending any more
 */
export async function noteUnfunded(
  db: Queryable,
  { row, notice, now }: { row: TransactionRow; notice: string; now: Date },
): Promise<Date | undefined> {
  const { id, account_id: accountId, agent_id: agentId, chain, from_address: address } = row;
  const noted = await markUnfunded(db, { id, notice, now });
  if (noted?.isNew)
    await insertEvent(db, {
      accountId,
      agentId,
      type: 'agent.low_gas',
      resourceType: 'agent',
      resourceId: agentId,
      data: { agent_id: agentId, chain, address, transaction_id: id, message: notice },
    });
  return noted?.since;
}

/** The same of a payment that is signed, by what a node has said of its bytes. */
export async function noteSignedUnfunded(
  pool: Pool,
  { row, reason, now }: { row: TransactionRow; reason: string; now: Date },
): Promise<void> {
  const notice = `The wallet ${row.from_address} cannot pay for the signed transaction yet: ${reason}. It goes on once money has arrived.`;
  await inTransaction(pool, async (db) => {
    await lockTransaction(db, { id: row.id });
    await noteUnfunded(db, { row, notice, now });
  });
}
