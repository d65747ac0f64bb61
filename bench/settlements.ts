import { lockAgentAndTransaction } from '../activities/end-payment.ts';
import { hashAuditEntry } from '../shared/audit-chain.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import { bySystem, insertAudit, type NewAuditEntry } from '../shared/db/audit.ts';
import { moveAuditHead } from '../shared/db/audit-heads.ts';
import { insertAuditLogs } from '../shared/db/audit-logs.ts';
import { closeHolds } from '../shared/db/holds.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { closeSlot, findSlot } from '../shared/db/slots.ts';
import { confirmTransaction, type TransactionRow, takeLongestWaiting } from '../shared/db/transactions.ts';
import { newId } from '../shared/ids.ts';
import { noteTransaction } from '../shared/note-transaction.ts';
import { renderAuditContent } from '../shared/render-audit.ts';

/** What a settlement writes beside the payment itself. */
type Note = (db: Queryable, row: TransactionRow) => Promise<void>;

/** Settles a payment by the statements of activities/settle.ts, and notes it as is given here. */
function createSettlement(pool: Pool, note: Note) {
  return (id: string): Promise<void> =>
    inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, id);
      const [final] = await findAttempts(db, { transactionId: id });
      await findSlot(db, { transactionId: id });
      const { hash, fee_minor, block_number } = final!;
      const spent = [
        { asset: row.asset, amountMinor: BigInt(row.amount_minor) },
        { asset: 'native', amountMinor: BigInt(fee_minor!) },
      ];
      await closeReservation(db, { paymentId: id, state: 'settled' });
      await closeHolds(db, { ownerId: id, block: block_number!, spent });
      await closeSlot(db, { transactionId: id });
      const fact = { id, hash, feeMinor: fee_minor!, blockNumber: block_number!, confirmations: 1 };
      if (!(await confirmTransaction(db, fact))) throw new Error(`Payment ${id} was settled before.`);
      await note(db, row);
      await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
    });
}

/** Neither event nor audit entry. */
export const settleBare = (pool: Pool) => createSettlement(pool, async () => {});

/** With the event, its delivery, and an entry that takes its place in the chain later. */
export const settleAndNote = (pool: Pool) =>
  createSettlement(pool, async (db, row) => {
    await noteTransaction(db, { id: row.id, type: 'payment.completed' });
    await insertAudit(db, entryOf(row));
  });

/** The same with an entry that takes its place at once, under the lock of the chain: what the inbox spares. */
export const settleAndChain = (pool: Pool) =>
  createSettlement(pool, async (db, row) => {
    await noteTransaction(db, { id: row.id, type: 'payment.completed' });
    const { rows } = await db.query<{ seq: string; hash: string }>(
      'select seq, hash from audit_heads where account_id = $1 for update',
      [row.account_id],
    );
    const { accountId, acting, agentId = null, changes = null, metadata = {}, ...entry } = entryOf(row);
    const unhashed = {
      ...{ id: newId('aud'), account_id: accountId, seq: Number(rows[0]!.seq) + 1, prev_hash: rows[0]!.hash },
      ...{ action: entry.action, actor_type: acting.actor.type, actor_id: acting.actor.id, actor_name: null },
      ...{ resource_type: entry.resourceType, resource_id: entry.resourceId, agent_id: agentId, result: entry.result },
      ...{ ip_address: null, user_agent: null, request_id: null, changes, metadata, created_at: new Date() },
    };
    const { seq, created_at: createdAt } = unhashed;
    const hash = hashAuditEntry(renderAuditContent(unhashed));
    await insertAuditLogs(db, [{ ...unhashed, hash }]);
    await moveAuditHead(db, { accountId, seq, hash, createdAt });
  });

const entryOf = (row: TransactionRow): NewAuditEntry => ({
  accountId: row.account_id,
  agentId: row.agent_id,
  action: 'transaction.signed',
  acting: bySystem,
  resourceType: 'transaction',
  resourceId: row.id,
  result: 'success',
  metadata: { hash: row.hash, nonce: row.nonce, chain: row.chain },
});
