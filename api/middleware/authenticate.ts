import type { NextFunction, Request, Response } from 'express';
import type { createTokenVerifier, TokenHolder } from '../../shared/access-token.ts';
import { type Environment, hashApiKey, isApiKey } from '../../shared/api-key.ts';
import { findAccountSettings } from '../../shared/db/accounts.ts';
import { findApiKey, touchApiKey } from '../../shared/db/api-keys.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';

/** Who asks: an account, by a key of it, by a person who is signed in, or by both. */
export interface Caller {
  readonly accountId: string;
  readonly keyId?: string;
  readonly keyName?: string;
  readonly user?: {
    readonly id: string;
    readonly sessionId: string;
    /** Lower case; undefined unless it is verified. */
    readonly email: string | undefined;
  };
}

export interface AuthenticateDependencies {
  readonly pool: Pool;
  readonly environment: Environment;
  /** Checks access tokens; without it none is taken. */
  readonly verifyToken?: ReturnType<typeof createTokenVerifier> | undefined;
}

/**
 * Requires an API key of this environment or an access token, and puts the caller into `response.locals`. Where both
 * are sent, both must be valid and of one account. Nothing is cached: a deleted key fails at once.
 */
export function createAuthenticate(deps: AuthenticateDependencies) {
  return async function authenticate(request: Request, response: Response, next: NextFunction): Promise<void> {
    try {
      const caller = await identify(deps, request);
      response.locals.caller = caller;
      response.locals.log = (response.locals.log as Logger).child({
        account_id: caller.accountId,
        ...(caller.keyId !== undefined && { key_id: caller.keyId }),
        ...(caller.user && { user_id: caller.user.id }),
      });
    } catch (error) {
      if (error instanceof Unauthenticated) response.setHeader('WWW-Authenticate', error.challenge);
      throw error;
    }
    next();
  };
}

async function identify(deps: AuthenticateDependencies, request: Request): Promise<Caller> {
  const key = request.get('x-api-key');
  const [authorization, second] = request.headersDistinct.authorization ?? [];
  if (second !== undefined) throw new Unauthenticated('Send the header Authorization once.');
  if (key === undefined && authorization === undefined)
    throw new Unauthenticated('Send an API key in the header X-API-Key, or an access token as Authorization: Bearer.');
  const byKey = key === undefined ? undefined : await identifyByKey(deps, key);
  const byToken = authorization === undefined ? undefined : await identifyByToken(deps, authorization);
  if (byKey && byToken && byKey.accountId !== byToken.accountId)
    throw new Unauthenticated('The API key and the token are of different accounts. Send one of them.');
  return { ...byKey, ...byToken } as Caller;
}

async function identifyByKey({ pool, environment }: AuthenticateDependencies, key: string): Promise<Caller> {
  if (!isApiKey(key, { environment }))
    throw new Unauthenticated(`The API key is not one of this ${environment} service.`);
  const holder = await findApiKey(pool, { hash: hashApiKey(key) });
  if (!holder) throw new Unauthenticated('The API key is not valid, or it was deleted.');
  if (holder.stale) await touchApiKey(pool, { id: holder.id });
  return { accountId: holder.account_id, keyId: holder.id, keyName: holder.name };
}

/** Scheme in any case, then a token of the characters that RFC 6750, 2.1, allows. */
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

async function identifyByToken(
  { pool, verifyToken }: AuthenticateDependencies,
  authorization: string,
): Promise<Caller & Required<Pick<Caller, 'user'>>> {
  if (!verifyToken)
    throw new Unauthenticated('This service takes no access tokens: it is not told whose to trust. Send an API key.');
  const token = bearer.exec(authorization)?.[1];
  if (token === undefined) throw invalidToken('The header Authorization must be "Bearer" and an access token.');
  let holder: TokenHolder;
  try {
    holder = await verifyToken(token);
  } catch (error) {
    const isExpired = (error as { code?: string }).code === 'ERR_JWT_EXPIRED';
    throw invalidToken(isExpired ? 'The access token has expired. Sign in again.' : 'The access token is not valid.');
  }
  const { accountId, userId, sessionId, email } = holder;
  if (!isId('acct', accountId) || !(await findAccountSettings(pool, { id: accountId })))
    throw invalidToken('The account of the access token does not exist here.');
  return { accountId, user: { id: userId, sessionId, email } };
}

/** A 401 names what is accepted instead (RFC 9110, 11.6.1). */
class Unauthenticated extends PurserError {
  readonly challenge: string;
  constructor(message: string, { challenge = 'Bearer realm="purser"' }: { challenge?: string } = {}) {
    super('authentication_failed', message);
    this.challenge = challenge;
  }
}

/** What was wrong with a token, as RFC 6750, 3, wants it said. */
function invalidToken(message: string): Unauthenticated {
  const description = message.replaceAll('"', "'");
  return new Unauthenticated(message, {
    challenge: `Bearer realm="purser", error="invalid_token", error_description="${description}"`,
  });
}
