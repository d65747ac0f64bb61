import { randomUUID } from 'node:crypto';
import {
  type CryptoKey,
  createLocalJWKSet,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
  type KeyObject,
  SignJWT,
} from 'jose';

export const tokenIssuer = 'purser-dev';
export const tokenAudience = 'purser';

/** The only one that is accepted: what a token says of itself never chooses how it is checked. */
const algorithm = 'ES256';

/** Characters of a token that are looked at; ours have about 600. */
const maxTokenLength = 4096;

/** Who is signed in, and for which account. */
export interface TokenHolder {
  readonly accountId: string;
  readonly userId: string;
  readonly sessionId: string;
  /** Lower case; undefined unless the issuer has verified it. */
  readonly email: string | undefined;
}

/** Makes a token (JWT, RFC 7519) by which a person proves who they are. */
export function signAccessToken(
  { privateKey, kid }: { privateKey: CryptoKey | KeyObject; kid: string },
  {
    accountId,
    userId,
    sessionId,
    email,
    emailVerified,
  }: { accountId: string; userId: string; sessionId: string; email: string; emailVerified: boolean },
  { lifetimeSeconds }: { lifetimeSeconds: number },
): Promise<string> {
  const nowSeconds = Math.floor(Date.now() / 1000);
  return new SignJWT({ sid: sessionId, acct: accountId, email, email_verified: emailVerified })
    .setProtectedHeader({ alg: algorithm, kid, typ: 'JWT' })
    .setIssuer(tokenIssuer)
    .setAudience(tokenAudience)
    .setSubject(userId)
    .setIssuedAt(nowSeconds)
    .setExpirationTime(nowSeconds + lifetimeSeconds)
    .setJti(randomUUID())
    .sign(privateKey);
}

/**
 * Checks tokens by the issuer's public keys: signature, issuer, audience, time, and that every claim is there.
 * @returns a function that throws on anything wrong
 */
export function createTokenVerifier(jwks: JSONWebKeySet): (token: string) => Promise<TokenHolder> {
  const keys = createLocalJWKSet(jwks);
  return async function verifyToken(token) {
    if (token.length > maxTokenLength) throw new Error(`A token has at most ${maxTokenLength} characters.`);
    const { payload } = await jwtVerify(token, keys, {
      algorithms: [algorithm],
      issuer: tokenIssuer,
      audience: tokenAudience,
      requiredClaims: ['sub', 'sid', 'acct', 'iat', 'exp', 'jti'],
    });
    return {
      accountId: text(payload, 'acct'),
      userId: text(payload, 'sub'),
      sessionId: text(payload, 'sid'),
      email: payload.email_verified === true ? text(payload, 'email').toLowerCase() : undefined,
    };
  };
}

function text(payload: JWTPayload, claim: string): string {
  const value = payload[claim];
  if (typeof value !== 'string' || value === '') throw new Error(`The claim ${claim} is not text.`);
  return value;
}
