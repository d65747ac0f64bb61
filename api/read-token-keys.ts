import { readFileSync } from 'node:fs';
import type { JSONWebKeySet } from 'jose';
import { z } from 'zod';
import { ConfigError } from '../shared/config.ts';

/** What the api needs of each key; a private member has no place here. */
const publicKey = z
  .looseObject({ kty: z.literal('EC'), crv: z.literal('P-256'), kid: z.string().min(1) })
  .refine((key) => !('d' in key), { error: 'holds a private key' });
const keySet = z.object({ keys: z.array(publicKey).min(1) });

/** The public keys (JWKS, RFC 7517) by which access tokens are checked. @throws ConfigError */
export function readTokenKeys(path: string): JSONWebKeySet {
  const refused = (why: string) => new ConfigError([`PURSER_DEV_TOKEN_KEYS_FILE: ${path} ${why}.`]);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw refused(`cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  const parsed = keySet.safeParse(parse(content));
  if (parsed.success) return parsed.data as JSONWebKeySet;
  if (parsed.error.issues.some(({ message }) => message === 'holds a private key'))
    throw refused('holds a private key; it must hold public keys only');
  throw refused('is no JWKS of EC keys on P-256, each with a kid');
}

function parse(content: string): unknown {
  try {
    return JSON.parse(content) as unknown;
  } catch {
    return undefined;
  }
}
