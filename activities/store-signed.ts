import type { Offer } from '../shared/chain/family.ts';
import { storeAttempt } from '../shared/db/attempts.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import { noteTransaction } from '../shared/note-transaction.ts';

/** Signed bytes of a payment. */
interface SignedBytes {
  readonly row: Pick<TransactionRow, 'id' | 'account_id' | 'agent_id'>;
  readonly hash: string;
  readonly raw: string;
  readonly purpose: 'payment' | 'noop';
  readonly version: number;
  readonly offer?: Offer | null;
}

/**
 * Stores signed bytes before they are sent, and in the same database transaction what is told of that, once: the signature
 * in the audit log, and to the receivers of events that the payment is being sent.
 * @returns false when the payment is not pending any more: nothing was stored, nothing may be sent
 */
export function storeSigned(pool: Pool, bytes: SignedBytes): Promise<boolean> {
  return inTransaction(pool, (db) => storeSignedIn(db, bytes));
}

/** The same, in the caller's database transaction. */
export async function storeSignedIn(db: Queryable, { row, ...attempt }: SignedBytes): Promise<boolean> {
  const stored = await storeAttempt(db, { transactionId: row.id, ...attempt });
  if (!stored) return false;
  const { hash, purpose, version } = attempt;
  if (stored.isNew)
    await insertAudit(db, {
      accountId: row.account_id,
      agentId: row.agent_id,
      action: 'transaction.signed',
      acting: bySystem,
      resourceType: 'transaction',
      resourceId: row.id,
      result: 'success',
      metadata: { hash, purpose: purpose === 'payment' ? 'payment' : 'cancel', version },
    });
  if (stored.isFirstPayment) await noteTransaction(db, { id: row.id, type: 'payment.pending' });
  return true;
}
