import type { Pool } from '../shared/db/pool.ts';
import { deleteOldAlerts } from '../shared/db/signer-alerts.ts';
import type { Logger } from '../shared/log.ts';

const batch = 1_000;
/** More than this are left for the next day. */
const maxBatches = 1_000;

/** Forgets alerts that have been over for as long as the audit log is kept. */
export async function forgetAlerts({
  pool,
  logger,
  keepMonths,
}: {
  pool: Pool;
  logger: Logger;
  keepMonths: number;
}): Promise<void> {
  let forgotten = 0;
  for (let batches = 0; batches < maxBatches; batches += 1) {
    const count = await deleteOldAlerts(pool, { keepMonths, limit: batch });
    forgotten += count;
    if (count < batch) break;
  }
  if (forgotten > 0) logger.info({ alerts: forgotten }, 'forgot alerts that were over long ago');
}
