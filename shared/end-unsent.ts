import { cancelApprovals } from './db/approvals.ts';
import { hasAttempts } from './db/attempts.ts';
import { forgetFrozenPayment } from './db/freezes.ts';
import { dropHolds } from './db/holds.ts';
import type { Queryable } from './db/pool.ts';
import { closeReservation } from './db/reservations.ts';
import { closeSlot, findSlot, releaseSlot, wishFor } from './db/slots.ts';
import { type FailureCode, failTransaction, type TransactionRow } from './db/transactions.ts';
import { noteTransaction } from './note-transaction.ts';

export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
}

/** Tells the receivers of events that a payment has failed; of what the policies deny they were told with the decision. */
export async function noteFailure(
  db: Queryable,
  { id }: Pick<TransactionRow, 'id'>,
  { code }: Pick<Failure, 'code'>,
): Promise<void> {
  if (code !== 'policy_violation') await noteTransaction(db, { id, type: 'payment.failed' });
}

/**
 * Ends a pending payment of which nothing was transferred: row, reservation, hold, place and open questions together.
 * Hold the agent's and the transaction's lock.
 * @returns `filling`: it has a place, and the signers may have signed for it though nothing is stored. It fails once they
 *   have said that they did not, or once its place is used up
 */
export async function endUnsent(db: Queryable, row: TransactionRow, failure: Failure): Promise<'failed' | 'filling'> {
  const slot = await findSlot(db, { transactionId: row.id });
  await cancelApprovals(db, { paymentId: row.id });
  if (slot && !(await hasAttempts(db, { transactionId: row.id }))) {
    await wishFor(db, { transactionId: row.id, wanted: 'fill', end: failure });
    return 'filling';
  }
  await endUnsigned(db, row, failure);
  return 'failed';
}

/**
 * Ends a pending payment of which no signature is good any more: that is certain of one without a place, of one whose
 * place is taken, of one that has expired, and of one that the signers know nothing of. Hold the agent's and the
 * transaction's lock.
 */
export async function endUnsigned(db: Queryable, row: TransactionRow, failure: Failure): Promise<void> {
  const isFailed = await failTransaction(db, { id: row.id, ...failure });
  await closeReservation(db, { paymentId: row.id, state: 'released' });
  await dropHolds(db, { ownerId: row.id });
  await forgetFrozenPayment(db, row);
  if (!(await releaseSlot(db, { transactionId: row.id }))) await closeSlot(db, { transactionId: row.id });
  if (isFailed) await noteFailure(db, row, failure);
}
