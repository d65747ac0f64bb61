import { familyOf } from './chain/families.ts';
import { lockAgent } from './db/agents.ts';
import { findAttempts } from './db/attempts.ts';
import type { Queryable } from './db/pool.ts';
import { findSlot, type SlotRow, wishFor } from './db/slots.ts';
import { lockTransaction, type TransactionRow } from './db/transactions.ts';
import { endUnsent } from './end-unsent.ts';

/**
 * Why a payment is left as it is: it has ended, is in a block, was never sent, is signed for good on its chain, or its
 * place is being used up.
 */
export type Standing = 'ended' | 'included' | 'unsent' | 'irreplaceable' | 'ending';

const byClient = { code: 'cancelled', message: 'The payment was cancelled on request.' } as const;

/**
 * Cancels a pending payment: at once while it has no place on its chain; else by having that used up, for what is signed
 * may be mined all the same. Which of the two is mined decides. A second request changes nothing.
 * @returns why it cannot be cancelled; undefined when it was, or will be if that is mined first
 */
export async function cancelPayment(
  db: Queryable,
  row: Pick<TransactionRow, 'id' | 'agent_id'>,
): Promise<'ended' | 'included' | 'irreplaceable' | undefined> {
  const { locked, slot, standing } = await look(db, row);
  if (standing === 'ended' || standing === 'included' || standing === 'irreplaceable') return standing;
  if (slot) await wishFor(db, { transactionId: row.id, wanted: 'cancel', end: byClient });
  else await endUnsent(db, locked, byClient);
  return undefined;
}

/**
 * Asks for a payment's transaction to be signed and sent again with higher fees.
 * @returns why it cannot be; undefined when it was asked for, now or before
 */
export async function speedUpPayment(
  db: Queryable,
  row: Pick<TransactionRow, 'id' | 'agent_id'>,
): Promise<Standing | undefined> {
  const { standing } = await look(db, row);
  if (standing) return standing;
  await wishFor(db, { transactionId: row.id, wanted: 'speed_up' });
  return undefined;
}

async function look(
  db: Queryable,
  { id, agent_id }: Pick<TransactionRow, 'id' | 'agent_id'>,
): Promise<{ locked: TransactionRow; slot: SlotRow | undefined; standing: Standing | undefined }> {
  await lockAgent(db, { id: agent_id });
  const locked = (await lockTransaction(db, { id }))!;
  const slot = await findSlot(db, { transactionId: id });
  const attempts = await findAttempts(db, { transactionId: id });
  return { locked, slot, standing: standingOf() };

  function standingOf(): Standing | undefined {
    if (locked.status !== 'pending') return 'ended';
    if (attempts.some((each) => each.block_number !== null)) return 'included';
    if (slot && (slot.purpose !== 'payment' || slot.wanted === 'cancel' || slot.wanted === 'fill')) return 'ending';
    if (attempts.length === 0) return 'unsent';
    return familyOf(locked.chain).irreplaceable === undefined ? undefined : 'irreplaceable';
  }
}
