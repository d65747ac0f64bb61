import { lockAgent, lockWallet } from '../shared/db/agents.ts';
import { cancelApprovals } from '../shared/db/approvals.ts';
import {
  agentOfHolds,
  endHolds,
  findHoldingPayment,
  type HoldingPayment,
  type Leftover,
  leftoversOf,
  listLeftovers,
} from '../shared/db/leftovers.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { lockTransaction } from '../shared/db/transactions.ts';
import { lockX402Payment } from '../shared/db/x402-payments.ts';
import { lockSession } from '../shared/db/x402-sessions.ts';
import type { ReconcileResult } from '../shared/domain/reconcile.ts';
import type { Logger } from '../shared/log.ts';
import { recountBudget } from '../shared/x402-budget.ts';

const batchSize = 100;
/** Owners that are looked at in one run. */
const maxOwners = 1_000;

/**
 * Gives back what ended payments and sessions still take from limits, budgets and wallets, and withdraws the questions about them. There is
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
        logger.error({ payment_id: ownerId, err: error }, 'what an ended payment takes cannot be given back');
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

/** Under the locks of every writer: agent, session, payment, wallet. @returns what was there and is not any more */
function repair(pool: Pool, { ownerId }: { ownerId: string }): Promise<Leftover | undefined> {
  return inTransaction(pool, async (db) => {
    const payment = await lockOwner(db, { ownerId });
    const found = await leftoversOf(db, { ownerId });
    if (!found) return undefined;
    if (payment && !payment.is_open)
      await closeReservation(db, { paymentId: ownerId, state: payment.is_paid ? 'settled' : 'released' });
    await endHolds(db, { ownerId, block: payment?.block_number ?? null });
    await cancelApprovals(db, { paymentId: ownerId });
    // What it took from limits and wallet it may still take from its budget.
    if (payment?.session_id) await recountBudget(db, { sessionId: payment.session_id });
    return found;
  });
}

/** @returns the payment; nothing where money is held for a session, or for what does not exist */
async function lockOwner(db: Queryable, { ownerId }: { ownerId: string }): Promise<HoldingPayment | undefined> {
  const known = await findHoldingPayment(db, { id: ownerId });
  const agentId = known?.agent_id ?? (await agentOfHolds(db, { ownerId }));
  if (agentId !== undefined) await lockAgent(db, { id: agentId });
  if (!known?.session_id) await lockTransaction(db, { id: ownerId });
  else {
    await lockSession(db, { id: known.session_id });
    await lockX402Payment(db, { id: ownerId });
    await lockWallet(db, { id: known.wallet_id });
  }
  return findHoldingPayment(db, { id: ownerId });
}
