import { lockAgent } from '../shared/db/agents.ts';
import { cancelApprovals } from '../shared/db/approvals.ts';
import { agentOfHolds, endHolds, type Leftover, leftoversOf, listLeftovers } from '../shared/db/leftovers.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { getTransaction, lockTransaction, type TransactionRow } from '../shared/db/transactions.ts';
import type { ReconcileResult } from '../shared/domain/reconcile.ts';
import type { Logger } from '../shared/log.ts';

const batchSize = 100;
/** Owners that are looked at in one run. */
const maxOwners = 1_000;

/**
 * Gives back what ended payments still take from limits and wallets, and withdraws the questions about them. There is
 * none such unless something went wrong that nobody has thought of; each is logged.
 * @returns what this call repaired; what another process repairs at the same time counts there
 */
export async function repairLeftovers({
  pool,
  logger,
}: {
  pool: Pool;
  logger: Logger;
}): Promise<ReconcileResult['repaired']> {
  const repaired = { reservations: 0, holds: 0, approvals: 0 };
  let looked = 0;
  for (let after = ''; looked < maxOwners; ) {
    const batch = await listLeftovers(pool, { after, limit: batchSize });
    for (const { owner_id: ownerId } of batch) {
      const found = await repair(pool, { ownerId }).catch((error: unknown) => {
        // One that cannot be repaired must not keep the others from it.
        logger.error({ transaction_id: ownerId, err: error }, 'what an ended payment takes cannot be given back');
      });
      if (!found) continue;
      logger.error({ ...found }, 'an ended payment still took from limits, wallet or people; it was given back');
      repaired.reservations += found.reservations;
      repaired.holds += found.holds;
      repaired.approvals += found.approvals;
    }
    looked += batch.length;
    if (batch.length < batchSize) break;
    after = batch.at(-1)!.owner_id;
  }
  return repaired;
}

/** Under the locks of every writer: agent, then transaction. @returns what was there and is not any more */
function repair(pool: Pool, { ownerId }: { ownerId: string }): Promise<Leftover | undefined> {
  return inTransaction(pool, async (db) => {
    const row = await lockOwner(db, { ownerId });
    const found = await leftoversOf(db, { ownerId });
    if (!found) return undefined;
    if (row?.status === 'confirmed') await closeReservation(db, { paymentId: ownerId, state: 'settled' });
    if (row?.status === 'failed') await closeReservation(db, { paymentId: ownerId, state: 'released' });
    await endHolds(db, { ownerId, block: row?.block_number ?? null });
    await cancelApprovals(db, { paymentId: ownerId });
    return found;
  });
}

/** @returns the payment; nothing where money is held for one that does not exist */
async function lockOwner(db: Queryable, { ownerId }: { ownerId: string }): Promise<TransactionRow | undefined> {
  const known = await getTransaction(db, { id: ownerId });
  const agentId = known?.agent_id ?? (await agentOfHolds(db, { ownerId }));
  if (agentId !== undefined) await lockAgent(db, { id: agentId });
  return lockTransaction(db, { id: ownerId });
}
