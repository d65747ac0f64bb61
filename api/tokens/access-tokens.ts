import { randomUUID } from 'node:crypto';
import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
  importJWK,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import type { TokenKeys } from './read-token-keys.ts';

export const tokenAudience = 'purser';

/** The only one that is accepted: what a token says of itself never chooses how it is checked. */
const algorithm = 'ES256';

/** Characters of a token that are looked at; ours have about 500. */
const maxTokenLength = 4096;

/** Seconds that an access token is good for. */
export const accessTokenSeconds = 3600;

/** Who is signed in, and for which account. */
export interface TokenHolder {
  readonly accountId: string;
  readonly userId: string;
  readonly sessionId: string;
}

/** A token that we did sign, and that is not good all the same. */
export class RefusedToken extends Error {
  override readonly name = 'RefusedToken';
  readonly isExpired: boolean;
  /** Whose it says to be, where it says so. */
  readonly accountId: string | undefined;
  readonly userId: string | undefined;

  constructor({ payload, cause }: { payload: JWTPayload; cause: unknown }) {
    super('The token is signed and not good.', { cause });
    this.isExpired = cause instanceof errors.JWTExpired;
    this.accountId = typeof payload.acct === 'string' ? payload.acct : undefined;
    this.userId = typeof payload.sub === 'string' ? payload.sub : undefined;
  }
}

/** Access tokens of this installation (JWT, RFC 7519). */
export interface AccessTokens {
  /** A token by which a person proves who they are, for an hour. */
  sign(holder: TokenHolder, options?: { lifetimeSeconds?: number }): Promise<string>;
  /** Checks signature, issuer, audience and time, and that every claim is there. @throws Error; RefusedToken where the signature is good */
  verify(token: string): Promise<TokenHolder>;
  /** By which others check them (RFC 7517). */
  publicJwks(): JSONWebKeySet;
}

/**
 * Makes and checks access tokens.
 * @param keys asked anew for each token, so that new ones are taken up
 * @param lookAgain looks whether there are newer keys, where a token names one that is not known
 * @param issuer URL of this installation
 */
export function createAccessTokens({
  keys,
  lookAgain,
  issuer,
}: {
  keys: () => TokenKeys;
  lookAgain?: () => void;
  issuer: string;
}): AccessTokens {
  const importOf = onceFor((of: TokenKeys) => createImported(of));

  async function check(token: string): Promise<JWTPayload> {
    const before = keys();
    try {
      return await verifySigned(token, { keys: importOf(before).verifying, issuer });
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !lookAgain) throw error;
      lookAgain();
      if (keys() === before) throw error;
      return verifySigned(token, { keys: importOf(keys()).verifying, issuer });
    }
  }

  return {
    async sign({ accountId, userId, sessionId }, { lifetimeSeconds = accessTokenSeconds } = {}) {
      const { kid, key } = importOf(keys()).signing();
      const nowSeconds = Math.floor(Date.now() / 1000);
      return new SignJWT({ sid: sessionId, acct: accountId })
        .setProtectedHeader({ alg: algorithm, kid, typ: 'JWT' })
        .setIssuer(issuer)
        .setAudience(tokenAudience)
        .setSubject(userId)
        .setIssuedAt(nowSeconds)
        .setExpirationTime(nowSeconds + lifetimeSeconds)
        .setJti(randomUUID())
        .sign(await key);
    },
    async verify(token) {
      if (token.length > maxTokenLength) throw new Error(`A token has at most ${maxTokenLength} characters.`);
      const payload = await check(token);
      try {
        return {
          accountId: text(payload, 'acct'),
          userId: text(payload, 'sub'),
          sessionId: text(payload, 'sid'),
        };
      } catch (cause) {
        throw new RefusedToken({ payload, cause });
      }
    },
    publicJwks: () => keys().publicJwks,
  };
}

/** Keys as they are used; to import one takes longer than to use it. */
function createImported(keys: TokenKeys) {
  const privateKeys = new Map<string, Promise<CryptoKey>>();
  return {
    verifying: createLocalJWKSet(keys.publicJwks),
    signing() {
      const { kid, jwk } = keys.current();
      const key = privateKeys.get(kid) ?? (importJWK(jwk, algorithm) as Promise<CryptoKey>);
      privateKeys.set(kid, key);
      return { kid, key };
    },
  };
}

/** Makes something anew only when what it is made of is another. */
function onceFor<Of extends object, Made>(make: (of: Of) => Made): (of: Of) => Made {
  const made = new WeakMap<Of, Made>();
  return (of) => {
    const known = made.get(of) ?? make(of);
    made.set(of, known);
    return known;
  };
}

async function verifySigned(
  token: string,
  { keys, issuer }: { keys: ReturnType<typeof createLocalJWKSet>; issuer: string },
): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: [algorithm],
      issuer,
      audience: tokenAudience,
      requiredClaims: ['sub', 'sid', 'acct', 'iat', 'exp', 'jti'],
    });
    return payload;
  } catch (error) {
    // Claims are looked at after the signature.
    if (error instanceof errors.JWTExpired || error instanceof errors.JWTClaimValidationFailed)
      throw new RefusedToken({ payload: error.payload, cause: error });
    throw error;
  }
}

function text(payload: JWTPayload, claim: string): string {
  const value = payload[claim];
  if (typeof value !== 'string' || value === '') throw new Error(`The claim ${claim} is not text.`);
  return value;
}
