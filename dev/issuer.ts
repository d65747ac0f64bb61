import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';
import { TypeID, typeid } from 'typeid-js';
import { signAccessToken } from '../shared/access-token.ts';

const ALGORITHM = 'ES256';
const LIFETIME_SECONDS = 3_600;

/**
 * Stands in for an identity provider on a developer's machine: it says of everybody that asks that they are who they
 * say. Never for anything that holds real money; the api refuses its keys in production.
 */
export interface DevelopmentIssuer {
  /** JWKS file of its public key, for the api. */
  readonly keysFile: string;
  /** A token of the person with this e-mail address, which counts as verified. The same address is the same person. */
  issueToken(o: { email: string }): Promise<{ token: string; lifetimeSeconds: number }>;
}

/** Opens the issuer for one account, with the key in `dir`, which is made once. */
export async function openIssuer({ dir, accountId }: { dir: string; accountId: string }): Promise<DevelopmentIssuer> {
  const secret = await ensureKey(dir);
  const privateKey = await importJWK(secret, ALGORITHM);
  if (privateKey instanceof Uint8Array) throw new Error('The key of the development issuer is not one of a pair.');
  const { d: _, ...publicJwk } = secret;
  const kid = await calculateJwkThumbprint(publicJwk);
  const keysFile = join(dir, 'development-issuer.jwks.json');
  const keys = [{ ...publicJwk, kid, alg: ALGORITHM, use: 'sig' }];
  writeFileSync(keysFile, `${JSON.stringify({ keys }, null, 2)}\n`);
  return {
    keysFile,
    async issueToken({ email }) {
      const holder = {
        accountId,
        userId: userIdOf(email),
        sessionId: typeid('sess').toString(),
        email,
        emailVerified: true,
      };
      const token = await signAccessToken({ privateKey, kid }, holder, { lifetimeSeconds: LIFETIME_SECONDS });
      return { token, lifetimeSeconds: LIFETIME_SECONDS };
    },
  };
}

async function ensureKey(dir: string): Promise<JWK> {
  const file = join(dir, 'development-issuer.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as JWK;
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${JSON.stringify(jwk)}\n`, { mode: 0o600, flag: 'wx' });
  return jwk;
}

/** Nobody keeps a list of people here, so that the id follows from the address. */
function userIdOf(email: string): string {
  const digest = createHash('sha256').update(email.toLowerCase()).digest();
  return TypeID.fromUUIDBytes('user', digest.subarray(0, 16)).toString();
}
