import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import ipaddr from 'ipaddr.js';
import type { Pool } from '../../shared/db/pool.ts';
import { admitRequest } from '../../shared/db/request-limits.ts';
import { PurserError } from '../../shared/errors.ts';
import { clientAddressOf } from '../client-address.ts';
import { Unauthenticated } from '../unauthenticated.ts';
import { inWords } from './limit-requests.ts';
import type { RequestMeasures } from './measure-requests.ts';

/** The part of an IPv6 address that one customer's network is given as a whole; bytes. */
const networkBytes = 8;

/**
 * Counts refused credentials for each client address, over all processes, and answers 429 where there were too many of
 * them in a minute: whoever guesses learns nothing more, and whoever has a good credential is never in the way of
 * it. Sending none at all does not count. Stands behind everything that refuses credentials.
 */
export function createLimitRefusals({
  pool,
  failedAuthPerMinute,
  measures,
}: {
  pool: Pool;
  failedAuthPerMinute: number;
  measures?: RequestMeasures | undefined;
}) {
  const limits = { perMinute: failedAuthPerMinute, perDay: null, concurrent: null };

  return async function limitRefusals(
    error: unknown,
    request: Request,
    response: Response,
    next: NextFunction,
  ): Promise<void> {
    const address = clientAddressOf(request);
    // An address is missing only where nobody waits for the answer any more.
    if (!(error instanceof Unauthenticated) || error.reason === 'none' || address === '') return next(error);
    const subject = `address:${networkOf(address)}`;
    const { retryAfterSeconds } = await admitRequest(pool, { subject, limits, holder: randomUUID() });
    if (retryAfterSeconds === null) return next(error);
    measures?.noteLimited('refused_credentials');
    response.removeHeader('WWW-Authenticate');
    next(
      new PurserError(
        'rate_limit_exceeded',
        `More than ${failedAuthPerMinute} credentials from your address were refused within 60 seconds. Retry after ${inWords(retryAfterSeconds)}.`,
        { retryAfterSeconds },
      ),
    );
  };
}

/** An IPv4 address, or the /64 of an IPv6 one: whoever has one address there has them all. */
function networkOf(address: string): string {
  const parsed = ipaddr.parse(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  const bytes = parsed.toByteArray().map((byte, index) => (index < networkBytes ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/${networkBytes * 8}`;
}
