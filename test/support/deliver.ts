import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { JWK } from 'jose';
import { pino } from 'pino';
import { createDeliverWebhook, type DeliverWebhookDependencies } from '../../activities/deliver-webhook.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { type DeliveryRow, getDelivery } from '../../shared/db/webhook-deliveries.ts';
import { createHttpGuard, type HttpGuardOptions } from '../../shared/http-guard.ts';
import { certificate } from './certificate.ts';
import { secretBox } from './webhook-rows.ts';

/** What a call of the activity came to: its result, or when it wants to be called again. */
export type Called = { readonly status: string } | { readonly again: string; readonly delayMs: number };

/** The activity as a worker runs it; what it logs is kept. */
export function createTestDeliver({
  pool,
  key,
  guard = {},
  ...more
}: { pool: Pool; key: JWK; guard?: Partial<HttpGuardOptions> } & Partial<Omit<DeliverWebhookDependencies, 'guard'>>) {
  const logged: string[] = [];
  const deliver = createDeliverWebhook({
    pool,
    clock: databaseClock,
    guard: createHttpGuard({ allowLoopback: true, extraCa: certificate.cert, timeoutMs: 5_000, ...guard }),
    opener: secretBox(key).opener,
    livemode: false,
    logger: pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) }),
    ...more,
  });
  const call = async (id: string): Promise<Called> => {
    const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
    try {
      return await environment.run(deliver, id);
    } catch (error) {
      if (!(error instanceof ApplicationFailure) || error.nonRetryable) throw error;
      return { again: error.type!, delayMs: Number(error.nextRetryDelay) };
    }
  };
  return {
    call,
    logged,
    /** Makes the next attempt due, whenever it was to be, and makes it. */
    async attempt(id: string): Promise<DeliveryRow> {
      await pool.query(`update webhook_deliveries set next_attempt_at = now() where id = $1 and status = 'pending'`, [
        id,
      ]);
      await call(id);
      return (await getDelivery(pool, { id }))!;
    },
  };
}
