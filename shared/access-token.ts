import { randomUUID } from 'node:crypto';
import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
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

/** A token that the issuer did sign, and that is not good all the same. */
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
 * @returns a function that throws on anything wrong: RefusedToken where the signature is good
 */
export function createTokenVerifier(jwks: JSONWebKeySet): (token: string) => Promise<TokenHolder> {
  const keys = createLocalJWKSet(jwks);
  return async function verifyToken(token) {
    if (token.length > maxTokenLength) throw new Error(`A token has at most ${maxTokenLength} characters.`);
    const payload = await verifySigned(token, keys);
    try {
      return {
        accountId: text(payload, 'acct'),
        userId: text(payload, 'sub'),
        sessionId: text(payload, 'sid'),
        email: payload.email_verified === true ? text(payload, 'email').toLowerCase() : undefined,
      };
    } catch (cause) {
      throw new RefusedToken({ payload, cause });
    }
  };
}

async function verifySigned(token: string, keys: ReturnType<typeof createLocalJWKSet>): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: [algorithm],
      issuer: tokenIssuer,
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
