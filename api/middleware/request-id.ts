import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import type { Logger } from '../../shared/log.ts';

const shape = /^[A-Za-z0-9._-]{1,128}$/;

/** Gives every request an id, its own if that is a valid one, and a logger that carries it. */
export function createRequestId({ log }: { log: Logger }) {
  return function requestId(request: Request, response: Response, next: NextFunction): void {
    const given = request.get('x-request-id');
    const id = given !== undefined && shape.test(given) ? given : randomUUID();
    response.setHeader('X-Request-Id', id);
    response.locals.requestId = id;
    response.locals.log = log.child({ request_id: id });
    next();
  };
}
