import type { Logger } from '../../log.ts';

/** Rests after failures: doubled each time, between these two, and shortened by chance by up to a half. */
const shortestRestMs = 1_000;
const longestRestMs = 30_000;

/** When an endpoint is to be asked again. Nothing is ever taken out of use for good. */
export interface Rest {
  /** Time left of the present rest, 0 if there is none. */
  leftMs(): number;
  worked(p: { startedMs: number }): void;
  /** @param startedMs when the request began that failed now @param forMs as long as the endpoint wished */
  failed(p: { startedMs: number; kind: 'limited' | 'down' | 'wrong_chain'; forMs?: number | undefined }): void;
}

/** @param host what of the endpoint's address may be logged */
export function createRest({
  host,
  logger,
  random,
}: {
  host: string;
  logger: Logger | undefined;
  random: () => number;
}): Rest {
  let failures = 0;
  let sinceMs = 0;
  let untilMs = 0;
  let state: 'working' | 'limited' | 'down' | 'wrong_chain' = 'working';

  return {
    leftMs: () => Math.max(untilMs - performance.now(), 0),
    worked({ startedMs }) {
      // An answer to what was asked before it failed says nothing about now.
      if (startedMs < sinceMs) return;
      failures = 0;
      untilMs = 0;
      if (state !== 'working') logger?.info({ host }, 'an endpoint of the chain works again');
      state = 'working';
    },
    failed({ startedMs, kind, forMs }) {
      // Requests of one moment fail together: that is one failure.
      if (failures > 0 && startedMs < sinceMs) return;
      failures += 1;
      sinceMs = performance.now();
      const fullMs = Math.min(shortestRestMs * 2 ** Math.min(failures - 1, 10), longestRestMs);
      untilMs = sinceMs + (forMs ?? fullMs * (0.5 + random() / 2));
      if (state !== kind) say(kind, Math.round(untilMs - sinceMs));
      state = kind;
    },
  };

  function say(kind: 'limited' | 'down' | 'wrong_chain', restMs: number): void {
    if (kind === 'limited') logger?.warn({ host, restMs }, 'an endpoint of the chain limits us');
    else if (kind === 'down') logger?.warn({ host, restMs }, 'an endpoint of the chain fails');
    else logger?.error({ host }, 'an endpoint belongs to ANOTHER CHAIN and is not used: correct the list of RPC URLs');
  }
}
