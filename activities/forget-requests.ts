import type { Pool } from '../shared/db/pool.ts';
import { deleteUnusedWindows } from '../shared/db/request-limits.ts';
import type { Logger } from '../shared/log.ts';

const batch = 1_000;
/** More than this are left for the next day. */
const maxForgotten = 1_000_000;

/** Forgets the counts of keys, people and addresses that have not been there for two days: none of them limits anybody. */
export async function forgetRequests({ pool, logger }: { pool: Pool; logger: Logger }): Promise<void> {
  let forgotten = 0;
  while (forgotten < maxForgotten) {
    const count = await deleteUnusedWindows(pool, { limit: batch });
    forgotten += count;
    if (count < batch) break;
  }
  if (forgotten > 0) logger.info({ subjects: forgotten }, 'forgot the counts of requests of who is not there any more');
}
