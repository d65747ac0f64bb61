import type { Logger } from './log.ts';

/** Within 30 s everything that was under way has ended, or the process ends without it. */
const limitMs = 30_000;
/** One wish may arrive several times: a terminal tells the whole group of processes, and whoever started us tells us. */
const sameWishMs = 1_000;
const exitCodes = { SIGTERM: 143, SIGINT: 130 } as const;

/**
 * Hears SIGTERM and SIGINT. The first one asks for an orderly end: the signal is aborted, and the caller lets what is
 * under way end and takes nothing new. A second one, later than a second after it, ends the process at once, as does
 * the time limit: nothing is lost by that, for whatever was begun is repeated as after kill -9, it only takes longer.
 */
export function createStopSignal({ log }: { log: Pick<Logger, 'info' | 'warn'> }): AbortSignal {
  const stopping = new AbortController();
  let askedAtMs = 0;
  const hear = (name: keyof typeof exitCodes) => {
    if (stopping.signal.aborted) {
      if (performance.now() - askedAtMs <= sameWishMs) return;
      log.warn({ signal: name }, 'told to stop again; ending at once');
      process.exit(exitCodes[name]);
    }
    askedAtMs = performance.now();
    log.info({ signal: name }, 'stopping');
    const expire = () => {
      log.warn(`not everything ended within ${limitMs / 1000} s; ending without it`);
      process.exit(1);
    };
    setTimeout(expire, limitMs).unref();
    stopping.abort();
  };
  process.on('SIGTERM', hear).on('SIGINT', hear);
  return stopping.signal;
}
