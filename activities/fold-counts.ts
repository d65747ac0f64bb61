import { foldListCounts } from '../shared/db/list-counts.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { createLoop, type Loop } from './loop.ts';

/** Counts are right at any time; what is not folded yet makes reading them slower. */
const idleMs = 1_000;

/** Folds what has changed into the kept counts of lists. May run in several processes: one of them folds at a time. */
export function createCountFolder({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  return createLoop({
    name: 'fold counts',
    idleMs,
    round: async () => ((await foldListCounts(pool)) ? 'busy' : 'idle'),
    logger,
  });
}
