import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { JSONWebKeySet, JWK } from 'jose';
import { z } from 'zod';
import { ConfigError } from './read-env.ts';

/** Keys that a worker tries at most; more than a few mean that the old ones are forgotten there. */
export const maxWebhookKeys = 16;

const coordinate = z.string().regex(/^[A-Za-z0-9_-]{43}$/);
const shape = z.looseObject({
  kty: z.literal('EC'),
  crv: z.literal('P-256'),
  x: coordinate,
  y: coordinate,
  kid: z.string().min(1).max(128),
});
const publicKey = shape.refine((key) => isKey(() => createPublicKey({ key, format: 'jwk' })));
const privateKey = shape
  .extend({ d: coordinate })
  .refine((key) => isKey(() => createPrivateKey({ key, format: 'jwk' })));
const privateKeys = z.object({
  keys: z
    .array(privateKey)
    .min(1)
    .max(maxWebhookKeys)
    .refine((keys) => new Set(keys.map(({ kid }) => kid)).size === keys.length),
});

/** The key to which the api seals secrets of webhooks (JWK, RFC 7517). @throws ConfigError */
export function readWebhookPublicKey(path: string): JWK {
  const refused = refusal('PURSER_WEBHOOK_PUBLIC_KEY_FILE', path);
  const content = readJson(path, refused);
  // The api must not be able to open what it seals.
  if (/"d"\s*:/.test(JSON.stringify(content) ?? ''))
    throw refused('holds a private key; it must hold the public one only');
  const parsed = publicKey.safeParse(content);
  if (!parsed.success)
    throw refused('is no JWK of an EC key on P-256 with a kid; worker/init-webhook-keys.ts makes one');
  return publicHalfOf(parsed.data as JWK);
}

/** The keys that open secrets of webhooks (JWKS, RFC 7517); the first one is the current one. @throws ConfigError */
export function readWebhookKeys(path: string): JSONWebKeySet {
  const refused = refusal('PURSER_WEBHOOK_KEYS_FILE', path);
  const parsed = privateKeys.safeParse(readJson(path, refused));
  if (!parsed.success)
    throw refused(
      `is no JWKS of 1 to ${maxWebhookKeys} private EC keys on P-256, each with a kid of its own; worker/init-webhook-keys.ts makes one`,
    );
  return parsed.data as JSONWebKeySet;
}

/** What everybody may know of a key. */
export function publicHalfOf({ kty, crv, x, y, kid }: JWK): JWK {
  return { kty, crv, x, y, kid } as JWK;
}

function refusal(name: string, path: string) {
  return (why: string) => new ConfigError([`${name}: ${path} ${why}.`]);
}

function readJson(path: string, refused: (why: string) => ConfigError): unknown {
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw refused(`cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch {
    return undefined;
  }
}

/** A point that is not on the curve, for instance, is none. */
function isKey(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}
