import { findMismatches, type Mismatch } from '../shared/db/mismatches.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Reports every reservation, hold or sum that does not agree with the payments. Changes nothing. */
export function createCheckReservations({ pool, logger }: { pool: Pool; logger: Logger }) {
  return async function checkReservations(): Promise<{ readonly mismatches: readonly Mismatch[] }> {
    const mismatches = await withHeartbeat(() => findMismatches(pool));
    if (mismatches.length > 0) logger.error({ mismatches }, 'limits and payments do not agree');
    return { mismatches };
  };
}
