import cors from 'cors';
import type { NextFunction, Request, Response } from 'express';

/** How long a browser may take it from us that it may ask (Chrome's own limit). */
const preflightSeconds = 7_200;
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'];
const allowedHeaders = [
  ...['Authorization', 'X-API-Key', 'Content-Type'],
  ...['Idempotency-Key', 'X-Idempotency-Key', 'X-Request-Id'],
];
const exposedHeaders = [
  ...['X-Request-Id', 'Retry-After', 'Idempotent-Replayed'],
  ...['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'RateLimit-Policy'],
];

/**
 * Lets pages of the named origins use what is behind, and no others: whoever is not named is answered as if there were
 * no CORS. Cookies are never asked for. A preflight (Fetch, 4.8) carries no credential, so this stands before
 * authentication.
 * @param origins exact, as browsers send them; none: pages of other origins get nothing
 */
export function createCors({ origins }: { origins: readonly string[] }) {
  const answer = cors({
    origin: [...origins],
    methods,
    allowedHeaders,
    exposedHeaders,
    credentials: false,
    maxAge: preflightSeconds,
  });
  return function allowOrigins(request: Request, response: Response, next: NextFunction): void {
    // The same answer must not be kept for another origin.
    if (origins.length > 0) response.vary('Origin');
    const isPlainOptions = request.method === 'OPTIONS' && request.get('access-control-request-method') === undefined;
    if (origins.includes(request.get('origin') ?? '') && !isPlainOptions) answer(request, response, next);
    else next();
  };
}
