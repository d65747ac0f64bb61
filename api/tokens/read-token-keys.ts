import { readFileSync } from 'node:fs';
import type { JSONWebKeySet, JWK } from 'jose';
import { z } from 'zod';
import { ConfigError } from '../../shared/read-env.ts';

/** More than a few mean that the old ones are forgotten there. */
export const maxTokenKeys = 16;

const coordinate = z.string().regex(/^[A-Za-z0-9_-]{43}$/);
const privateKey = z.looseObject({
  kty: z.literal('EC'),
  crv: z.literal('P-256'),
  x: coordinate,
  y: coordinate,
  d: coordinate,
  kid: z.string().min(1).max(128),
  /** Seconds since 1970 from which it signs; it is published before. */
  nbf: z.int().min(0).default(0),
});
const keySet = z.object({
  keys: z
    .array(privateKey)
    .min(1)
    .max(maxTokenKeys)
    .refine((keys) => new Set(keys.map(({ kid }) => kid)).size === keys.length),
});

/** A key with its private half, as it stands in the file. */
export type PrivateTokenKey = z.output<typeof privateKey>;

/** Keys by which access tokens are signed and checked. */
export interface TokenKeys {
  /** The one that signs now: the last one whose time has come. */
  current(): { kid: string; jwk: JWK };
  /** Public halves of all, also of those to come and of those that signed before (RFC 7517). */
  readonly publicJwks: JSONWebKeySet;
}

/** The private keys of access tokens (JWKS, RFC 7517). @throws ConfigError */
export function readTokenKeys(path: string): TokenKeys {
  const keys = readPrivateTokenKeys(path);
  return {
    current() {
      const nowSeconds = Date.now() / 1000;
      const { kid, kty, crv, x, y, d } = keys.find(({ nbf }) => nbf <= nowSeconds) ?? keys.at(-1)!;
      return { kid, jwk: { kty, crv, x, y, d } };
    },
    publicJwks: {
      keys: keys.map(({ kty, crv, x, y, kid }) => ({ kty, crv, x, y, kid, alg: 'ES256', use: 'sig' })),
    },
  };
}

/** The same as they are, the one that signs last first. @throws ConfigError */
export function readPrivateTokenKeys(path: string): PrivateTokenKey[] {
  const refused = (why: string) => new ConfigError([`PURSER_TOKEN_KEYS_FILE: ${path} ${why}.`]);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw refused(`cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  const parsed = keySet.safeParse(parse(content));
  if (!parsed.success)
    throw refused(
      `is no JWKS of 1 to ${maxTokenKeys} private EC keys on P-256, each with a kid of its own; api/init-token-keys.ts makes one`,
    );
  return parsed.data.keys.toSorted((one, other) => other.nbf - one.nbf);
}

function parse(content: string): unknown {
  try {
    return JSON.parse(content) as unknown;
  } catch {
    return undefined;
  }
}
