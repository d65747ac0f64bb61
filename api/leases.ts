import type { Response } from 'express';
import type { Pool } from '../shared/db/pool.ts';
import { type Lease, releaseLease, renewLeases } from '../shared/db/request-limits.ts';
import type { Logger } from '../shared/log.ts';

/** A quarter of a lease's life, so that it lives through a moment without the database. */
const renewMs = 5_000;
/** Longer than this no answer waits until its lease is given back. */
const longestReleaseMs = 1_000;

/** Holds the lease until the answer is complete, or its client has gone. */
export type HoldLease = (lease: Lease, response: Response) => void;

/**
 * Keeps the leases of requests under way, and gives each back right before the last of its answer is sent: whoever has
 * the answer may send the next request, to whichever process, and find the place free. Long requests have theirs renewed;
 * leases of a process that has died expire. A failure is logged and changes no answer.
 */
export function createLeaseKeeper({ pool, log }: { pool: Pool; log: Logger }): HoldLease {
  const held = new Map<Lease, { readonly sinceMs: number }>();
  let timer: NodeJS.Timeout | undefined;

  function renew(): void {
    const beforeMs = performance.now() - renewMs / 2;
    const leases = [...held].filter(([, { sinceMs }]) => sinceMs < beforeMs).map(([lease]) => lease);
    if (leases.length === 0) return;
    renewLeases(pool, leases).catch((error: unknown) =>
      log.warn({ err: error, leases: leases.length }, 'places of requests under way could not be kept'),
    );
  }

  async function release(lease: Lease): Promise<void> {
    if (!held.delete(lease)) return;
    if (held.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
    try {
      await releaseLease(pool, lease);
    } catch (error) {
      log.warn({ err: error }, 'the place of a request stays taken until its lease expires');
    }
  }

  return function holdLease(lease, response) {
    held.set(lease, { sinceMs: performance.now() });
    timer ??= setInterval(renew, renewMs).unref();
    response.once('close', () => void release(lease));
    // It closed while the lease was taken.
    if (response.closed) void release(lease);
    else beforeEnd(response, () => release(lease));
  };
}

/** Has the end of an answer wait for something, but not for long. There is one end: whoever calls it again is too late. */
function beforeEnd(response: Response, work: () => Promise<void>): void {
  const end = response.end.bind(response) as (...args: unknown[]) => Response;
  let isEnding = false;
  response.end = ((...args: unknown[]) => {
    if (isEnding) return response;
    isEnding = true;
    const bound = Promise.withResolvers<void>();
    const timer = setTimeout(bound.resolve, longestReleaseMs);
    void Promise.race([work(), bound.promise]).then(() => {
      clearTimeout(timer);
      end(...args);
    });
    return response;
  }) as Response['end'];
}
