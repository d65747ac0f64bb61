import type { NextFunction, Request, Response } from 'express';
import type { Logger } from '../../shared/log.ts';
import { logFields } from '../../shared/log-context.ts';
import { loggedPath } from './logged-path.ts';

/** One line for each request when it is over, also when the client left before. Never headers, query, body, or the token of a link. */
export function accessLog(request: Request, response: Response, next: NextFunction): void {
  const startedMs = performance.now();
  // The connection closes outside of the request's own context.
  const about = logFields();
  response.once('close', () => {
    const log = response.locals.log as Logger;
    const line = {
      ...about,
      method: request.method,
      path: loggedPath(request.originalUrl),
      status: response.statusCode,
      duration_ms: Math.round(performance.now() - startedMs),
      complete: response.writableFinished,
    };
    log.info(line, 'request');
  });
  next();
}
