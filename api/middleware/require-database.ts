import type { NextFunction, Request, Response } from 'express';
import { isConnectionError } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Installation } from '../../shared/installation.ts';

const retryAfterSeconds = 5;

/** Serves nothing from a database of which it is not known yet that this process may work with it. */
export function createRequireDatabase({ installation }: { installation: Pick<Installation, 'database'> }) {
  return async function requireDatabase(_request: Request, _response: Response, next: NextFunction): Promise<void> {
    let wrong: readonly string[];
    try {
      wrong = await installation.database();
    } catch (error) {
      if (isConnectionError(error)) throw error;
      throw unavailable('The database is not ready yet. Try again.', error);
    }
    if (wrong.length > 0) throw unavailable('This process may not work with its database. Tell the operator.');
    next();
  };
}

function unavailable(message: string, cause?: unknown): PurserError {
  return new PurserError('service_unavailable', message, { retryAfterSeconds, ...(cause !== undefined && { cause }) });
}
