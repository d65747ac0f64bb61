import { setTimeout as sleep } from 'node:timers/promises';
import {
  dropOldestPartition,
  findMisplacedRows,
  isBusy,
  makeNextPartition,
  neededBecause,
} from '../shared/db/partitions.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { MonthsResult } from '../shared/domain/months.ts';
import type { Logger } from '../shared/log.ts';
import { forgetAlerts } from './forget-alerts.ts';
import { forgetRequests } from './forget-requests.ts';
import { forgetSignIns } from './forget-sign-ins.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** How far ahead there is room: a stack may rest for a quarter and find its months made. */
const monthsAhead = 3;
/** Whoever uses a table keeps its months from being changed; statements end within 30 s. */
const tries = 60;
const pauseMs = 500;
/** Far more than there can be. */
const mostPartitions = 1_000;

/** Whole months that are kept besides the current one. */
export interface Retention {
  /** Of events, deliveries and their attempts. */
  readonly eventMonths: number;
  /** Of the audit log. */
  readonly auditMonths: number;
}

export interface MonthsDependencies {
  readonly pool: Pool;
  readonly logger: Logger;
}

/**
 * Makes months that are to come, drops those that are too old, and tells of rows that neither can reach; and forgets what
 * else is too old to matter.
 */
export function createKeepMonths({ pool, logger, retention }: MonthsDependencies & { retention: Retention }) {
  return function keepMonths(): Promise<MonthsResult> {
    return withHeartbeat(async () => {
      const made = await makeMonths({ pool, logger });
      const { dropped, staying } = await dropMonths({ pool, logger, retention });
      const misplaced = await findMisplacedRows(pool);
      if (misplaced.length > 0) logger.warn({ misplaced }, 'rows lie outside the months of their tables');
      await forgetRequests({ pool, logger });
      await forgetSignIns({ pool, logger });
      await forgetAlerts({ pool, logger, keepMonths: retention.auditMonths });
      return { made, dropped, staying, misplaced };
    });
  };
}

/** Makes what is missing of this month and the next ones. @returns names of what was made */
export async function makeMonths({ pool, logger }: MonthsDependencies): Promise<string[]> {
  const made: string[] = [];
  while (made.length < mostPartitions) {
    const name = await patiently(() => makeNextPartition(pool, { monthsAhead }));
    if (name === undefined) break;
    logger.info({ partition: name }, 'made room for a month');
    made.push(name);
  }
  return made;
}

async function dropMonths({ pool, logger, retention }: MonthsDependencies & { retention: Retention }) {
  const { eventMonths, auditMonths } = retention;
  const dropped: string[] = [];
  const staying: string[] = [];
  for (const [table, keepMonths] of [
    ['events', eventMonths],
    ['webhook_deliveries', eventMonths],
    ['webhook_attempts', eventMonths],
    ['audit_logs', auditMonths],
  ] as const) {
    try {
      while (dropped.length < mostPartitions) {
        const name = await patiently(() => dropOldestPartition(pool, { table, keepMonths }));
        if (name === undefined) break;
        logger.info({ partition: name, keepMonths }, 'dropped a month that is old enough');
        dropped.push(name);
      }
    } catch (error) {
      const why = neededBecause(error);
      if (why === undefined) throw error;
      logger.warn({ table, why }, 'a month stays although it is old');
      staying.push(why);
    }
  }
  return { dropped, staying };
}

/** Calls again while others use the table. They go first; each call makes them wait for a moment at most. */
async function patiently<T>(change: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await change();
    } catch (error) {
      if (!isBusy(error) || attempt === tries) throw error;
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  }
}
