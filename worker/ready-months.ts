import { setTimeout as sleep } from 'node:timers/promises';
import { type MonthsDependencies, makeMonths } from '../activities/keep-months.ts';

/** The database may come up after us; longer than this, and the daily schedule has to do it. */
const tries = 10;
const pauseMs = 1_000;

/**
 * Sees to it, before there is anything to write, that it has a month to go to: after a stop of some months, rows would lie
 * outside of them for good.
 */
export async function readyMonths({ pool, logger }: MonthsDependencies): Promise<void> {
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    try {
      await makeMonths({ pool, logger });
      return;
    } catch (error) {
      if (attempt === 1 || attempt === tries)
        logger.warn({ error: String(error) }, 'no room was made for the months to come yet');
      if (attempt < tries) await sleep(pauseMs);
    }
  }
}
