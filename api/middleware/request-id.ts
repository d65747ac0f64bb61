import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { logSubject } from '../../shared/domain/log-subject.ts';
import { withoutSecrets } from '../../shared/domain/without-secrets.ts';
import type { Logger } from '../../shared/log.ts';
import { withLogFields } from '../../shared/log-context.ts';
import { loggedPath } from './logged-path.ts';

const shape = /^[A-Za-z0-9._-]{1,128}$/;

/** Gives every request an id, its own if that is a valid one, which every line that is logged for it carries. */
export function createRequestId({ log }: { log: Logger }) {
  return function requestId(request: Request, response: Response, next: NextFunction): void {
    const given = request.get('x-request-id');
    // A key that somebody sends here by mistake must not stand in logs and in the audit log.
    const isFine = given !== undefined && shape.test(given) && withoutSecrets(given) === given;
    const id = isFine ? given : randomUUID();
    response.setHeader('X-Request-Id', id);
    response.locals.requestId = id;
    response.locals.log = log;
    withLogFields({ request_id: id, ...logSubject(loggedPath(request.originalUrl)) }, next);
  };
}
