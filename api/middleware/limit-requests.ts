import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import type { Pool } from '../../shared/db/pool.ts';
import { type Admission, admitRequest } from '../../shared/db/request-limits.ts';
import type { RequestLimits } from '../../shared/domain/plans.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import type { Caller } from '../caller.ts';
import { createLeaseKeeper } from '../leases.ts';
import type { RequestMeasures } from './measure-requests.ts';

/**
 * Refuses requests beyond what each key, or each person of an account, may make: in any 60 seconds, on a day of UTC, and
 * at once. Every answer to whom a number of requests is set says how many are left. Of whom nothing limits nothing is
 * counted, and nothing is asked of the database.
 */
export function createLimitRequests({
  pool,
  log,
  measures,
}: {
  pool: Pool;
  log: Logger;
  measures?: RequestMeasures | undefined;
}) {
  const holdLease = createLeaseKeeper({ pool, log });

  return async function limitRequests(_request: Request, response: Response, next: NextFunction): Promise<void> {
    const { caller } = response.locals as { caller: Caller };
    const { limits } = caller.account;
    if (Object.values(limits).every((limit) => limit === null)) return next();
    const admission = await admitRequest(pool, { subject: subjectOf(caller), limits, holder: randomUUID() });
    if (admission.lease) holdLease(admission.lease, response);
    setHeaders(response, admission);
    if (admission.refusedBy) measures?.noteLimited(admission.refusedBy);
    if (admission.refusedBy) throw tooMany(caller, { ...admission, refusedBy: admission.refusedBy });
    next();
  };
}

/** Whose requests are counted together: a person's, whatever key they send besides, or a key's. */
function subjectOf({ accountId, key, user }: Caller): string {
  if (user) return `${user.id}@${accountId}`;
  if (key) return key.id;
  throw new Error('A caller is a key or a person.');
}

/**
 * As draft-ietf-httpapi-ratelimit-headers-06 has them, of the limit that is nearest to its end. In a sliding minute
 * `Reset` tells when the oldest request counts no more, and so another one passes.
 */
function setHeaders(response: Response, { minute, day }: Admission): void {
  const given = [minute, day].filter((each) => each !== null);
  const [nearest] = given.toSorted((a, b) => a.remaining - b.remaining || b.resetSeconds - a.resetSeconds);
  if (!nearest) return;
  response.setHeader('RateLimit-Limit', String(nearest.limit));
  response.setHeader('RateLimit-Remaining', String(nearest.remaining));
  response.setHeader('RateLimit-Reset', String(nearest.resetSeconds));
  const policies = [minute && `${minute.limit};w=60`, day && `${day.limit};w=86400`];
  response.setHeader('RateLimit-Policy', policies.filter((policy) => policy !== null).join(', '));
}

const allowed: Readonly<Record<NonNullable<Admission['refusedBy']>, (limits: RequestLimits) => string>> = {
  minute: ({ perMinute }) => `${perMinute} requests in any 60 seconds`,
  day: ({ perDay }) => `${perDay} requests on a day of UTC`,
  concurrent: ({ concurrent }) => `${concurrent} requests at once`,
};

function tooMany(
  { account, key, user }: Caller,
  { refusedBy, retryAfterSeconds }: { refusedBy: keyof typeof allowed; retryAfterSeconds: number | null },
): PurserError {
  const seconds = retryAfterSeconds ?? 1;
  const who = user ? 'You' : `API key ${key!.id}`;
  return new PurserError(
    'rate_limit_exceeded',
    `${who} may make ${allowed[refusedBy](account.limits)} on the ${account.plan} plan. Retry after ${inWords(seconds)}.`,
    { retryAfterSeconds: seconds },
  );
}

/** @param seconds whole */
export function inWords(seconds: number): string {
  return seconds === 1 ? '1 second' : `${seconds} seconds`;
}
