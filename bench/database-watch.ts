import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { attemptsChannel } from '../shared/db/attempts.ts';

/** How often the table is looked at, once for all who wait. */
const lookMs = 10;

/** Moments of payments as the database knows them, without asking the API for each. */
export interface DatabaseWatch {
  /** The moment (performance.now) at which the next signed attempt is stored, of whichever payment. */
  nextAttempt(o: { withinMs: number }): Promise<number>;
  /** Resolves when the row is confirmed. @throws Error when it fails, or not in time */
  untilConfirmed(o: { transactionId: string; withinMs: number }): Promise<void>;
  close(): Promise<void>;
}

interface Waiting {
  readonly deadline: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Ended {
  readonly id: string;
  readonly status: 'confirmed' | 'failed';
  readonly failure_message: string | null;
}

/** Watches with one connection that listens and one that looks. */
export async function createDatabaseWatch({ databaseUrl }: { databaseUrl: string }): Promise<DatabaseWatch> {
  const listener = new pg.Client({ connectionString: databaseUrl });
  const looker = new pg.Client({ connectionString: databaseUrl });
  await Promise.all([listener.connect(), looker.connect()]);
  await listener.query(`listen ${attemptsChannel}`);
  const waiting = new Map<string, Waiting>();
  let isLooking = false;

  async function look(): Promise<void> {
    while (waiting.size > 0) {
      const { rows } = await looker.query<Ended>(
        `select id, status, failure_message from transactions where id = any($1::text[]) and status <> 'pending'`,
        [[...waiting.keys()]],
      );
      for (const row of rows) tell(row);
      for (const [id, { deadline, reject }] of waiting) {
        if (Date.now() < deadline) continue;
        waiting.delete(id);
        reject(new Error(`Payment ${id} was not confirmed in time.`));
      }
      await delay(lookMs);
    }
    isLooking = false;
  }

  function tell({ id, status, failure_message }: Ended): void {
    const { resolve, reject } = waiting.get(id)!;
    waiting.delete(id);
    if (status === 'confirmed') resolve();
    else reject(new Error(`Payment ${id} failed: ${failure_message}`));
  }

  /** A connection that breaks must not leave anybody waiting. */
  function giveUp(error: Error): void {
    isLooking = false;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  return {
    nextAttempt({ withinMs }) {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const timer = setTimeout(() => reject(new Error(`No payment was signed within ${withinMs} ms.`)), withinMs);
      const hear = () => resolve(performance.now());
      listener.once('notification', hear);
      return promise.finally(() => {
        clearTimeout(timer);
        listener.off('notification', hear);
      });
    },

    untilConfirmed({ transactionId, withinMs }) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      waiting.set(transactionId, { deadline: Date.now() + withinMs, resolve, reject });
      if (!isLooking) {
        isLooking = true;
        look().catch(giveUp);
      }
      return promise;
    },

    async close() {
      giveUp(new Error('The measurement has ended.'));
      await Promise.all([listener.end(), looker.end()]);
    },
  };
}
