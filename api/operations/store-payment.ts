import { setTimeout as sleep } from 'node:timers/promises';
import { inTransaction, isConnectionError, type Pool, type Queryable } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isX402 } from '../../shared/payment.ts';
import type { Once } from '../idempotency.ts';

const storeTries = 3;
const storePauseMs = 200;

/**
 * Stores a payment under the id that it was given, and with it the request's key. A connection that breaks meanwhile
 * leaves it open whether both are there: the same again finds out, and either way they exist once.
 * @param store in the database transaction that has claimed the key; inserts the row before it looks at anything
 * @param find the payment, if an earlier try was kept
 */
export async function storePayment<Row>(
  pool: Pool,
  {
    id,
    once,
    store,
    find,
  }: {
    id: string;
    once: Once;
    store: (db: Queryable) => Promise<Row>;
    find: () => Promise<Row | undefined>;
  },
): Promise<Row> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await inTransaction(pool, async (db) => {
        await once.claim(db, { resourceId: id, isKept: true });
        return store(db);
      });
    } catch (error) {
      if (!isConnectionError(error)) {
        // Whatever it is refused for: an earlier try may have been kept.
        const own = attempt > 1 ? await find() : undefined;
        if (own) return own;
        throw error;
      }
      if (attempt === storeTries) throw unknownOutcome(id, error);
      await sleep(storePauseMs);
    }
  }
}

function unknownOutcome(id: string, cause: unknown): PurserError {
  return new PurserError(
    'service_unavailable',
    `The database broke off while the payment was being stored. Repeat it with the same Idempotency-Key; without one, look up ${id} before you send it again.`,
    { retryAfterSeconds: 2, details: isX402(id) ? { ledger_id: id } : { transaction_id: id }, cause },
  );
}
