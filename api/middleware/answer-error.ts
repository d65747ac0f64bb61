import type { NextFunction, Request, Response } from 'express';
import { isConnectionError } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { renderError } from '../render/error.ts';

/** Seconds after which a repeat may succeed once Postgres is back. */
const retryAfterSeconds = 2;

/** The last handler: every error becomes the error object; what we did not foresee is logged and answered without detail. */
export function answerError(error: unknown, _request: Request, response: Response, _next: NextFunction): void {
  const log = response.locals.log as Logger;
  const known = toPurserError(error);
  if (known.status >= 500) log.error({ err: error }, known.message);
  if (response.headersSent) {
    response.destroy();
    return;
  }
  if (known.retryAfterSeconds !== undefined) response.setHeader('Retry-After', String(known.retryAfterSeconds));
  response.status(known.status).json(renderError(known, { requestId: response.locals.requestId as string }));
}

function toPurserError(error: unknown): PurserError {
  if (error instanceof PurserError) return error;
  // The router's, when it cannot decode a path segment.
  if (error instanceof URIError)
    return new PurserError('invalid_request', 'The path is not valid percent-encoded UTF-8.', { cause: error });
  if (isConnectionError(error))
    return new PurserError(
      'service_unavailable',
      'The database cannot be reached. Try again; if this was to change something, look first whether it did.',
      {
        retryAfterSeconds,
        cause: error,
      },
    );
  return new PurserError('server_error', 'Something failed on our side. Tell the operator the request_id.', {
    cause: error,
  });
}
