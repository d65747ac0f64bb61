import type { NextFunction, Request, Response } from 'express';
import { type Environment, hashApiKey, isApiKey } from '../../shared/api-key.ts';
import { type AccountOfCredential, findAccount } from '../../shared/db/accounts.ts';
import { findApiKey, touchApiKey } from '../../shared/db/api-keys.ts';
import { findSessionHolder } from '../../shared/db/auth-sessions.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { requestLimitsOf } from '../../shared/domain/plans.ts';
import { isId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import { actorOf, type Caller, type CallingAccount } from '../caller.ts';
import type { NoteDenial } from '../denial-log.ts';
import { type AccessTokens, RefusedToken, type TokenHolder } from '../tokens/access-tokens.ts';
import { invalidToken, type Known, tellUnauthenticated, Unauthenticated } from '../unauthenticated.ts';

export interface AuthenticateDependencies {
  readonly pool: Pool;
  readonly environment: Environment;
  /** Access tokens of people who are signed in; without them nobody can. */
  readonly tokens: AccessTokens | undefined;
}

/**
 * Requires an API key of this environment or an access token, and puts the caller into `response.locals`. Where both
 * are sent, both must be valid and of one account. Nothing is cached: a deleted key and a session that was signed out
 * fail at once, and a role counts as it is now. A refusal is noted for each account that the credentials are known to be
 * of.
 */
export function createAuthenticate(deps: AuthenticateDependencies & { readonly noteDenial: NoteDenial }) {
  return async function authenticate(request: Request, response: Response, next: NextFunction): Promise<void> {
    try {
      const caller = await identify(deps, request);
      response.locals.caller = caller;
      response.locals.log = (response.locals.log as Logger).child({
        account_id: caller.accountId,
        ...(caller.key && { key_id: caller.key.id }),
        ...(caller.user && { user_id: caller.user.id }),
      });
    } catch (error) {
      if (error instanceof Unauthenticated) await tellUnauthenticated(error, { ...deps, request, response });
      throw error;
    }
    next();
  };
}

async function identify(deps: AuthenticateDependencies, request: Request): Promise<Caller> {
  const key = request.get('x-api-key');
  const [authorization, second] = request.headersDistinct.authorization ?? [];
  if (second !== undefined) throw new Unauthenticated('Send the header Authorization once.', { reason: 'two_headers' });
  if (key === undefined && authorization === undefined)
    throw new Unauthenticated('Send an API key in the header X-API-Key, or an access token as Authorization: Bearer.', {
      reason: 'none',
    });
  const byKey = key === undefined ? undefined : await orRefusal(identifyByKey(deps, key));
  const byToken = authorization === undefined ? undefined : await orRefusal(identifyByToken(deps, authorization));
  const refusal = [byKey, byToken].find((each) => each instanceof Unauthenticated);
  // Whose a credential is that came with a bad one is known as well.
  if (refusal) throw refusal.knowing(knownBy([byKey, byToken]));
  const caller = { ...(byKey as Caller | undefined), ...(byToken as Caller | undefined) } as Caller;
  const accounts = knownBy([byKey, byToken]);
  if (accounts.length === 1) return caller;
  throw new Unauthenticated('The API key and the token are of different accounts. Send one of them.', {
    reason: 'accounts_differ',
  }).knowing(accounts);
}

type Identified = Caller | Unauthenticated | undefined;

async function orRefusal(work: Promise<Caller>): Promise<Caller | Unauthenticated> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Unauthenticated) return error;
    throw error;
  }
}

/** The accounts that credentials are of, each once. */
function knownBy(identified: readonly Identified[]): Known[] {
  const all = identified.flatMap((each) =>
    each instanceof Unauthenticated ? each.known : each ? [{ accountId: each.accountId, actor: actorOf(each) }] : [],
  );
  return all.filter(({ accountId }, index) => all.findIndex((each) => each.accountId === accountId) === index);
}

async function identifyByKey({ pool, environment }: AuthenticateDependencies, key: string): Promise<Caller> {
  const reason = 'key_not_valid';
  if (!isApiKey(key, { environment }))
    throw new Unauthenticated(`The API key is not one of this ${environment} service.`, { reason });
  const holder = await findApiKey(pool, { hash: hashApiKey(key) });
  if (!holder) throw new Unauthenticated('The API key is not valid, or it was deleted.', { reason });
  const { id, name, scopes, agent_id: agentId } = holder;
  const caller = { accountId: holder.account_id, account: accountOf(holder), key: { id, name, scopes, agentId } };
  if (holder.is_expired)
    throw new Unauthenticated('The API key has expired. Make a new one.', { reason: 'key_expired' }).knowing(
      knownBy([caller]),
    );
  if (holder.stale) await touchApiKey(pool, { id });
  return caller;
}

/** Scheme in any case, then a token of the characters that RFC 6750, 2.1, allows. */
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

async function identifyByToken(
  { pool, tokens }: AuthenticateDependencies,
  authorization: string,
): Promise<Caller & Required<Pick<Caller, 'user'>>> {
  if (!tokens)
    throw new Unauthenticated('This service takes no access tokens: it has no keys for them. Send an API key.', {
      reason: 'token_not_taken',
    });
  const token = bearer.exec(authorization)?.[1];
  if (token === undefined) throw invalidToken('The header Authorization must be "Bearer" and an access token.');
  let holder: TokenHolder;
  try {
    holder = await tokens.verify(token);
  } catch (error) {
    throw await refusedToken(pool, error);
  }
  const { accountId, userId, sessionId } = holder;
  const found = await findSessionHolder(pool, { id: sessionId, accountId, userId });
  if (!found) {
    const refusal = invalidToken('You are signed out. Sign in again.', { reason: 'signed_out' });
    throw await knowingUser(pool, refusal, { accountId, userId });
  }
  const { email, role } = found;
  return { accountId, account: accountOf(found), user: { id: userId, sessionId, email: email ?? undefined, role } };
}

function accountOf(row: AccountOfCredential): CallingAccount {
  const { plan, ip_allowlist: ipAllowlist, policy_writes: policyWrites } = row;
  const own = {
    perMinute: row.requests_per_minute,
    perDay: row.requests_per_day,
    concurrent: row.concurrent_requests,
  };
  return { plan, limits: requestLimitsOf({ plan, own }), ipAllowlist, policyWrites };
}

/** Why a token is refused, and whose it is: as much is known where the issuer has signed it. */
async function refusedToken(pool: Pool, error: unknown): Promise<Unauthenticated> {
  if (!(error instanceof RefusedToken)) return invalidToken('The access token is not valid.');
  const { isExpired, accountId, userId = null } = error;
  const refusal = isExpired
    ? invalidToken('The access token has expired. Sign in again.', { reason: 'token_expired' })
    : invalidToken('The access token is not valid.');
  return accountId === undefined ? refusal : knowingUser(pool, refusal, { accountId, userId });
}

/** Told to the account's audit log, if there is one. */
async function knowingUser(
  pool: Pool,
  refusal: Unauthenticated,
  { accountId, userId }: { accountId: string; userId: string | null },
): Promise<Unauthenticated> {
  const isAccount = isId('acct', accountId) && (await findAccount(pool, { id: accountId })) !== undefined;
  return isAccount ? refusal.knowing([{ accountId, actor: { type: 'user', id: userId, name: null } }]) : refusal;
}
