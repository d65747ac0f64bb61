import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../shared/log.ts';

/** Waits after failures: doubled each time, between these two. */
const shortestBackoffMs = 250;
const longestBackoffMs = 5_000;

/** Work of a process that goes on beside its tasks. */
export interface Loop {
  start(): void;
  /** Ends after the round under way. */
  stop(): Promise<void>;
}

/**
 * Does rounds of work until stopped: the next one at once while there is more to do, else after a pause. A round that
 * fails is tried again, less and less often, and what interrupts it is logged once.
 * @param round what is done; may run in several processes at once, and ends within seconds
 * @param idleMs pause after a round that found nothing (more) to do
 */
export function createLoop({
  name,
  idleMs,
  round,
  logger,
}: {
  name: string;
  idleMs: number;
  round: () => Promise<'busy' | 'idle'>;
  logger: Logger;
}): Loop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const found = await round();
        if (failures > 0) logger.info({ loop: name }, 'goes on');
        failures = 0;
        if (found === 'idle') await pause(idleMs);
      } catch (error) {
        if (failures === 0) logger.warn({ loop: name, error: String(error) }, 'is interrupted');
        await pause(Math.min(shortestBackoffMs * 2 ** failures, longestBackoffMs));
        failures = Math.min(failures + 1, 10);
      }
    }
  }

  return {
    start() {
      running ??= run();
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
