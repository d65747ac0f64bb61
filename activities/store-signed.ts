import type { Offer } from '../shared/chain/family.ts';
import { storeAttempt } from '../shared/db/attempts.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import { noteTransaction } from '../shared/note-transaction.ts';

/**
 * Stores signed bytes before they are sent, and in the same database transaction what is told of that, once: the signature
 * in the audit log, and to the receivers of events that the payment is being sent.
 * @returns false when the payment is not pending any more: nothing was stored, nothing may be sent
 */
export function storeSigned(
  pool: Pool,
  {
    row,
    ...attempt
  }: {
    row: Pick<TransactionRow, 'id' | 'account_id' | 'agent_id'>;
    hash: string;
    raw: string;
    purpose: 'payment' | 'noop';
    version: number;
    offer?: Offer | null;
  },
): Promise<boolean> {
  return inTransaction(pool, async (db) => {
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
  });
}
