import { setTimeout as delay } from 'node:timers/promises';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** After running this long, the next death counts as the first one again. */
const STEADY_MS = 60_000;

/** What can be kept running: any of the starters' results. */
interface Runnable {
  exited: Promise<string>;
  stop(): Promise<void>;
}

/** A part that is started again when it dies. */
export interface Supervised<T extends Runnable> {
  /** The one that runs now, or ran last. */
  current(): T;
  stop(): Promise<void>;
}

/**
 * Starts a part and keeps it running: each unexpected end is reported in one sentence, and after a pause that grows from
 * half a second to 30 seconds it is started again, until `signal` says that everything ends. The first start is the caller's: its failure is thrown.
 */
export async function supervise<T extends Runnable>(
  start: () => Promise<T>,
  o: { name: string; report: (sentence: string) => void; signal: AbortSignal },
): Promise<Supervised<T>> {
  let current = await start();
  const own = new AbortController();
  const end = { signal: AbortSignal.any([own.signal, o.signal]) };
  const watch = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      const from = performance.now();
      const how = await current.exited;
      if (end.signal.aborted) return;
      if (performance.now() - from > STEADY_MS) pauseMs = FIRST_PAUSE_MS;
      o.report(`${o.name} stopped unexpectedly (${how}); starting it again in ${pauseMs / 1000} s.`);
      pauseMs = await startAgain(pauseMs);
      if (end.signal.aborted) return;
    }
  };
  const startAgain = async (firstPauseMs: number): Promise<number> => {
    for (let pauseMs = firstPauseMs; ; ) {
      await delay(pauseMs, undefined, { signal: end.signal }).catch(() => {});
      if (end.signal.aborted) return pauseMs;
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      try {
        current = await start();
        o.report(`${o.name} runs again.`);
        return pauseMs;
      } catch (error) {
        o.report(`${(error as Error).message} Trying again in ${pauseMs / 1000} s.`);
      }
    }
  };
  const watching = watch();
  return {
    current: () => current,
    async stop() {
      own.abort();
      await current.stop();
      await watching;
      // A start that was under way when we were told to stop has made a new one.
      await current.stop();
    },
  };
}
