import type { Client } from '@temporalio/client';
import { takeThawed } from '../shared/db/freezes.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { messageNames } from '../shared/temporal.ts';
import { withHeartbeat } from './with-heartbeat.ts';

const batchSize = 500;
/** Calls to Temporal at a time. */
const width = 10;
/** Payments that are told in one run; the reconcile schedule goes on with the rest. */
const maxPayments = 20_000;

interface WakeDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly logger: Logger;
}

/**
 * Tells payments that waited because they were frozen to look again. A hint: where it gets lost, they look by themselves
 * after a while, ten minutes at most. Safe to repeat, and from several processes at once.
 * @returns how many were told
 */
export async function wakeThawed(deps: WakeDependencies): Promise<number> {
  let told = 0;
  while (told < maxPayments) {
    const ids = await takeThawed(deps.pool, { limit: batchSize });
    for (let start = 0; start < ids.length; start += width)
      await Promise.all(ids.slice(start, start + width).map((paymentId) => tell(deps, paymentId)));
    told += ids.length;
    if (ids.length < batchSize) break;
  }
  return told;
}

/** The same as an activity. */
export function createWakeThawed(deps: WakeDependencies) {
  return (): Promise<number> => withHeartbeat(() => wakeThawed(deps));
}

async function tell({ client, logger }: WakeDependencies, paymentId: string): Promise<void> {
  await client.workflow
    .getHandle(paymentId)
    .signal(messageNames.replace)
    .catch((error: unknown) => logger.info({ payment_id: paymentId, error: String(error) }, 'no workflow to tell'));
}
