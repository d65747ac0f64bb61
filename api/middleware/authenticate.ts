import type { NextFunction, Request, Response } from 'express';
import { type Environment, hashApiKey, isApiKey } from '../../shared/api-key.ts';
import { findApiKey, touchApiKey } from '../../shared/db/api-keys.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';

/** Who asks: the account, and the key that speaks for it. */
export interface Caller {
  readonly accountId: string;
  readonly keyId: string;
}

/** Requires a key of this environment and puts the caller into `response.locals`. Nothing is cached: a deleted key fails at once. */
export function createAuthenticate({ pool, environment }: { pool: Pool; environment: Environment }) {
  return async function authenticate(request: Request, response: Response, next: NextFunction): Promise<void> {
    const key = request.get('x-api-key');
    if (key === undefined) throw refused('Send an API key in the header X-API-Key.');
    if (request.get('authorization') !== undefined)
      throw refused('Send the API key alone: the header Authorization holds nothing that is valid here.');
    if (!isApiKey(key, { environment })) throw refused(`The API key is not one of this ${environment} service.`);
    const holder = await findApiKey(pool, { hash: hashApiKey(key) });
    if (!holder) throw refused('The API key is not valid, or it was deleted.');
    if (holder.stale) await touchApiKey(pool, { id: holder.id });
    const caller: Caller = { accountId: holder.account_id, keyId: holder.id };
    response.locals.caller = caller;
    response.locals.log = (response.locals.log as Logger).child({ account_id: caller.accountId, key_id: caller.keyId });
    next();
  };
}

function refused(message: string): PurserError {
  return new PurserError('authentication_failed', message);
}
