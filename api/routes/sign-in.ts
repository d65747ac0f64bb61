import { type CookieOptions, type Request, type Response, Router } from 'express';
import type { Pool } from '../../shared/db/pool.ts';
import { isConnectionError } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import { originOf } from '../acting.ts';
import { beginSignIn, cookieOf, findSignIn, pendingSeconds, surplusCookies } from '../oidc/pending-sign-in.ts';
import type { ProviderClient } from '../oidc/provider-client.ts';
import { completeSignIn, type ExchangeCode, type SignUp } from '../operations/complete-sign-in.ts';
import { signedInPage, signInFailedPage } from '../pages/sign-in-page.ts';
import { contentSecurityPolicy } from '../pages/style.ts';
import { renderError } from '../render/error.ts';

const path = '/auth/oidc';
/** Seconds after which a repeat may succeed once the database is back. */
const retryAfterSeconds = 10;
/** Longest query of a callback: codes and states are some hundred characters. */
const maxQueryLength = 8192;

/** How people sign in. */
export interface SignInSettings {
  readonly provider: ProviderClient;
  /** Where browsers reach this api. */
  readonly publicUrl: string;
  /** Where a sign-in ends; undefined for a page of ours. */
  readonly consoleUrl: string | undefined;
  readonly signUp: SignUp;
}

export interface SignInDependencies {
  readonly pool: Pool;
  /** Undefined where no identity provider is configured. */
  readonly signIn: SignInSettings | undefined;
}

/** Where the provider sends people back to. */
export const redirectUriOf = ({ publicUrl }: { publicUrl: string }): string => `${publicUrl}${path}/callback`;

/**
 * `/auth/oidc/redirect` leads a browser to the identity provider; `/auth/oidc/callback`, where it comes back, ends with a
 * code that `POST /api/v1/auth/exchange` takes.
 */
export function createSignInRouter({ pool, signIn }: SignInDependencies): Router {
  const router = Router({ caseSensitive: true });
  const serve = (name: string, answer: (deps: Configured, request: Request, response: Response) => Promise<void>) =>
    router.all(`${path}/${name}`, async (request, response) => {
      setHeaders(response);
      try {
        requireGet(request, response);
        if (!signIn) throw notConfigured();
        await answer({ ...signIn, pool }, request, response);
      } catch (error) {
        answerFailure(error, { signIn, request, response });
      }
    });
  serve('redirect', redirect);
  serve('callback', comeBack);
  return router;
}

interface Configured extends SignInSettings {
  readonly pool: Pool;
}

/** Neither history nor caches nor the pages that follow are to learn a code. */
function setHeaders(response: Response): void {
  response.setHeader('Content-Security-Policy', contentSecurityPolicy);
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('X-Robots-Tag', 'noindex, nofollow');
}

/** What only looks, as programs do by HEAD, must not use up a code. */
function requireGet(request: Request, response: Response): void {
  if (request.method === 'GET') return;
  response.setHeader('Allow', 'GET');
  throw new PurserError('method_not_allowed', 'This path has GET only.');
}

async function redirect(deps: Configured, request: Request, response: Response): Promise<void> {
  const accountId = readQuery(request).get('account') ?? undefined;
  if (accountId !== undefined && !isId('acct', accountId))
    throw new PurserError('invalid_request', 'account is not like acct_01kahvd1r0fv2t5c7m4y2q8s3z.', {
      param: 'account',
    });
  const pending = beginSignIn({ accountId, now: new Date() });
  const url = await deps.provider.authorizationUrl(pending);
  for (const name of surplusCookies(request.get('cookie'))) response.clearCookie(name, cookieOptions(deps));
  const { name, value } = cookieOf(pending);
  response.cookie(name, value, { ...cookieOptions(deps), maxAge: pendingSeconds * 1000 });
  response.redirect(302, url.href);
}

async function comeBack(deps: Configured, request: Request, response: Response): Promise<void> {
  const query = readQuery(request);
  const found = findSignIn(request.get('cookie'), { state: query.get('state') ?? '', now: new Date() });
  if ('fault' in found) throw notBegunHere(found.fault);
  response.clearCookie(found.cookie, cookieOptions(deps));
  if (!query.has('code') && !query.has('error'))
    throw new PurserError('invalid_request', 'The identity provider has sent neither a code nor an error.');
  const person = await deps.provider.identify(query, found.pending);
  const { accountId } = found.pending;
  const code = await completeSignIn(deps.pool, {
    person,
    accountId,
    signUp: deps.signUp,
    origin: originOf(request, response),
  });
  answerCode(code, { deps, request, response });
}

function answerCode(
  { code, expiresIn }: ExchangeCode,
  { deps: { consoleUrl, publicUrl }, request, response }: { deps: Configured; request: Request; response: Response },
): void {
  if (wantsJson(request)) {
    response.json({ exchange_code: code, expires_in: expiresIn });
    return;
  }
  if (consoleUrl === undefined) {
    response.type('html').send(signedInPage({ code, expiresIn, publicUrl }));
    return;
  }
  const url = new URL(consoleUrl);
  url.searchParams.set('exchange_code', code);
  response.redirect(302, url.href);
}

/** Sent back only to these two paths, also where a proxy has put something before them. */
function cookieOptions({ publicUrl }: SignInSettings): CookieOptions {
  const { protocol, pathname } = new URL(publicUrl);
  const prefix = pathname.replace(/\/$/, '');
  // Lax, because the provider is another site, from which the browser comes back.
  return { httpOnly: true, sameSite: 'lax', secure: protocol === 'https:', path: `${prefix}${path}` };
}

function readQuery(request: Request): URLSearchParams {
  const [, ...query] = request.url.split('?');
  const text = query.join('?');
  if (text.length > maxQueryLength)
    throw new PurserError('invalid_request', `The query has more than ${maxQueryLength} characters.`);
  return new URLSearchParams(text);
}

const wantsJson = (request: Request) => request.accepts(['html', 'json']) === 'json';

const notConfigured = () =>
  new PurserError(
    'resource_not_found',
    'Nobody can sign in here yet: this installation has no identity provider. Its operator sets PURSER_OIDC_ISSUER, PURSER_OIDC_CLIENT_ID, PURSER_TOKEN_KEYS_FILE and PURSER_PUBLIC_URL.',
  );

const notBegunHere = (fault: 'absent' | 'old') =>
  new PurserError(
    'invalid_request',
    fault === 'old'
      ? `This sign-in took more than ${pendingSeconds / 60} minutes. Begin it again.`
      : 'This browser has not begun this sign-in, has ended it already, or did not keep its cookie. Begin it again, and stay at the address where it begins.',
    { param: 'state' },
  );

function answerFailure(
  error: unknown,
  { signIn, request, response }: { signIn: SignInSettings | undefined; request: Request; response: Response },
): void {
  const log = response.locals.log as Logger;
  const known = toPurserError(error);
  if (known !== error) log.error({ err: error }, 'a sign-in failed');
  else if (known.code === 'insufficient_permissions') log.info('somebody was not let in');
  if (response.headersSent) {
    response.destroy();
    return;
  }
  if (known.retryAfterSeconds !== undefined) response.setHeader('Retry-After', String(known.retryAfterSeconds));
  response.status(known.status);
  if (wantsJson(request)) {
    response.json(renderError(known, { requestId: response.locals.requestId as string }));
    return;
  }
  response.type('html').send(signInFailedPage(known, { startUrl: signIn && `${signIn.publicUrl}${path}/redirect` }));
}

function toPurserError(error: unknown): PurserError {
  if (error instanceof PurserError) return error;
  if (isConnectionError(error))
    return new PurserError('service_unavailable', 'The database cannot be reached. Sign in again in a moment.', {
      retryAfterSeconds,
    });
  return new PurserError('server_error', 'Something failed on our side. Tell the operator the request_id.');
}
