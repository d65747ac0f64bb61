import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { z } from 'zod';
import { developmentMark } from '../shared/domain/development-mark.ts';

/** Secrets of an identity provider. */
export interface ProviderKeys {
  /** By which ID tokens are signed: RS256, as most providers do. */
  readonly signingKey: JWK;
  /** By which cookies are signed. */
  readonly cookieKey: string;
  /** Of the one client. */
  readonly clientSecret: string;
}

const keysShape = z.object({
  signingKey: z.looseObject({ kty: z.literal('RSA'), kid: z.string() }),
  cookieKey: z.string(),
  clientSecret: z.string(),
});

export async function makeProviderKeys(): Promise<ProviderKeys> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const random = () => randomBytes(32).toString('base64url');
  const jwk = await exportJWK(privateKey);
  return {
    signingKey: { ...jwk, kid: randomBytes(8).toString('hex'), alg: 'RS256', use: 'sig' },
    cookieKey: random(),
    // Marked: whoever can reach this provider is whom they choose to be, so production refuses to use it.
    clientSecret: `${developmentMark}.${random()}`,
  };
}

/** The keys in a file, which is made if there is none: who signs in goes on across restarts. */
export async function keepProviderKeys(file: string): Promise<ProviderKeys> {
  try {
    return keysShape.parse(JSON.parse(readFileSync(file, 'utf8'))) as ProviderKeys;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const keys = await makeProviderKeys();
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(keys), { mode: 0o600, flag: 'wx' });
  return keys;
}
