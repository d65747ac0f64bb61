import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  type IDToken,
} from 'openid-client';
import { isLoopback } from '../../shared/domain/loopback.ts';
import { normaliseText } from '../../shared/domain/text.ts';
import { verifiedEmail } from '../../shared/domain/verified-email.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { ConfigError } from '../../shared/read-env.ts';
import type { Person } from '../operations/complete-sign-in.ts';
import { challengeOf, type PendingSignIn } from './pending-sign-in.ts';
import { providerFault, unreachable, wordsOf } from './provider-fault.ts';

/** Of each request to the provider. */
const timeoutSeconds = 5;
/** How long a provider that could not be reached is left alone: a page that many reload does not knock it down. */
const pauseMs = 5_000;
/** Longest subject identifier (OpenID Connect Core, 2). */
const maxSubjectLength = 255;
const maxNameLength = 128;

export interface ProviderOptions {
  /** URL below which the provider publishes its configuration (OpenID Connect Discovery). */
  readonly issuer: string;
  readonly clientId: string;
  /** Undefined for a public client. */
  readonly clientSecret: string | undefined;
  readonly scopes: string;
  /** Whether every address that the provider names counts as verified, unless it says otherwise. */
  readonly trustsEmail: boolean;
}

/** The identity provider, as this installation sees it. */
export interface ProviderClient {
  /** Where a browser goes to sign in. @throws PurserError 503 */
  authorizationUrl(pending: PendingSignIn): Promise<URL>;
  /**
   * Who has come back from there.
   * @param callback query with which they came
   * @throws PurserError 401 where it does not belong to this sign-in, 403 where the provider has refused them, 503
   */
  identify(callback: URLSearchParams, pending: PendingSignIn): Promise<Person>;
}

/**
 * @param redirectUri where the provider sends people back to
 * @param now milliseconds
 * @throws ConfigError
 */
export function createProviderClient(
  { issuer, clientId, clientSecret, scopes, trustsEmail }: ProviderOptions,
  { redirectUri, log, now = Date.now }: { redirectUri: string; log: Logger; now?: () => number },
): ProviderClient {
  const server = new URL(issuer);
  const isPlain = server.protocol === 'http:';
  if (isPlain && !isLoopback(server.hostname))
    throw new ConfigError([
      'PURSER_OIDC_ISSUER must begin with https:// unless the provider is on this machine: whoever reads on the way can sign in.',
    ]);
  const configuration = lazily(
    () =>
      discovery(server, clientId, clientSecret, undefined, {
        timeout: timeoutSeconds,
        // The connection to the token endpoint vouches for the token as well; this does not depend on it.
        execute: [enableNonRepudiationChecks, ...(isPlain ? [allowInsecureRequests] : [])],
      }),
    { log, now },
  );
  return {
    async authorizationUrl(pending) {
      return buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUri,
        scope: scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: challengeOf(pending),
        code_challenge_method: 'S256',
      });
    },
    async identify(callback, pending) {
      const config = await configuration();
      try {
        return await readPerson(config, { callback, pending, redirectUri, trustsEmail });
      } catch (error) {
        throw providerFault(error, { log });
      }
    },
  };
}

/** Asks once, for everybody who waits, and keeps what it was told; after a failure it asks anew, but not at once. */
function lazily(
  ask: () => Promise<Configuration>,
  { log, now }: { log: Logger; now: () => number },
): () => Promise<Configuration> {
  let asked: Promise<Configuration> | undefined;
  let failedAt: number | undefined;
  return async () => {
    if (failedAt !== undefined && now() - failedAt >= pauseMs) asked = failedAt = undefined;
    asked ??= ask();
    try {
      return await asked;
    } catch (error) {
      if (failedAt === undefined) {
        failedAt = now();
        log.warn(wordsOf(error), 'the identity provider does not tell its configuration');
      }
      throw unreachable({ retryAfterSeconds: pauseMs / 1000 });
    }
  };
}

async function readPerson(
  config: Configuration,
  {
    callback,
    pending: { state, nonce, verifier },
    redirectUri,
    trustsEmail,
  }: { callback: URLSearchParams; pending: PendingSignIn; redirectUri: string; trustsEmail: boolean },
): Promise<Person> {
  const url = new URL(redirectUri);
  url.search = callback.toString();
  const tokens = await authorizationCodeGrant(config, url, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  });
  const token = tokens.claims()!;
  const claims = await claimsOf(config, { token, accessToken: tokens.access_token });
  if (token.sub.length > maxSubjectLength || /\p{Cc}/u.test(token.sub) || !token.sub.isWellFormed())
    throw new PurserError('authentication_failed', 'Your identity provider knows you by an identifier that is none.');
  // An issuer that stands for many, whose tokens name one of them each, has people in it who say of themselves what their address is.
  const isTrusted = trustsEmail && token.iss === config.serverMetadata().issuer;
  return {
    issuer: token.iss,
    subject: token.sub,
    email: verifiedEmail(claims, { isTrusted }),
    name: nameOf(claims),
  };
}

/** Providers may keep what scopes ask for out of the ID token (OpenID Connect Core, 5.4). */
async function claimsOf(
  config: Configuration,
  { token, accessToken }: { token: IDToken; accessToken: string },
): Promise<Readonly<Record<string, unknown>>> {
  if (token.email !== undefined || config.serverMetadata().userinfo_endpoint === undefined) return token;
  return { ...token, ...(await fetchUserInfo(config, accessToken, token.sub)) };
}

function nameOf({ name }: Readonly<Record<string, unknown>>): string | null {
  if (typeof name !== 'string') return null;
  const normal = normaliseText(name.trim(), { minLength: 1, maxLength: maxNameLength });
  return 'text' in normal ? normal.text : null;
}
