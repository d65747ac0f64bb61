import type { Client } from '@temporalio/client';
import { takeReminders } from '../shared/db/approvals.ts';
import { deleteExpiredKeys } from '../shared/db/idempotency-keys.ts';
import { listUnheardWishes } from '../shared/db/slots.ts';
import { listUnwatchedChains } from '../shared/db/unattended.ts';
import type { ReconcileResult } from '../shared/domain/reconcile.ts';
import { noteDatabase } from '../shared/note-database.ts';
import { messageNames } from '../shared/temporal.ts';
import { repairLeftovers } from './repair-leftovers.ts';
import { settleFreezes } from './settle-freezes.ts';
import { type VisitDependencies, visitPayments } from './visit-payments.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Payments that are reminded in one run. */
const reminderBatch = 500;
/** Keys that are deleted in one statement, and in one run. */
const keyBatch = 500;
const maxKeys = 5_000;

/**
 * One run of the reconcile schedule: what was left undone is done, what was left over is given back, what cannot be
 * mended from here is reported. Safe to repeat, and from several workers at once.
 * The name is kept by the histories of earlier versions.
 */
export function createStartMissing(deps: VisitDependencies) {
  const { pool, client, logger } = deps;
  return function startMissing(): Promise<ReconcileResult> {
    return withHeartbeat(async () => {
      if (await noteDatabase(pool))
        logger.error({ alert: 'database_restored' }, 'the database is another one: all is frozen');
      await settleFreezes(deps);
      const unwatched = await listUnwatchedChains(pool);
      for (const each of unwatched) logger.error(each, 'payments wait on a chain that nobody watches');
      const visits = await visitPayments(deps, { unwatched: unwatched.map(({ chain }) => chain) });
      const reminded = await remindAll();
      const repaired = await repairLeftovers(deps);
      return { ...visits, reminded, repaired, unwatched, expiredKeys: await deleteKeys() };
    });
  };

  /** The word about an answer or a wish gets lost when whoever decided dies right after, or Temporal is away; of a policy there is none. */
  async function remindAll(): Promise<number> {
    const answered = await takeReminders(pool, { limit: reminderBatch });
    for (const id of answered) await remind(client, { id, hint: messageNames.lookAgain });
    const wished = await listUnheardWishes(pool, { limit: reminderBatch });
    for (const id of wished) await remind(client, { id, hint: messageNames.replace });
    return answered.length + wished.length;
  }

  async function remind({ workflow }: Client, { id, hint }: { id: string; hint: string }): Promise<void> {
    await workflow
      .getHandle(id)
      .signal(hint)
      .catch((error: unknown) => logger.warn({ transaction_id: id, error: String(error) }, 'no workflow to remind'));
  }

  async function deleteKeys(): Promise<number> {
    let deleted = 0;
    while (deleted < maxKeys) {
      const count = await deleteExpiredKeys(pool, { limit: keyBatch });
      deleted += count;
      if (count < keyBatch) break;
    }
    return deleted;
  }
}
