import { createHash, type ScryptOptions, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import canonicalize from 'canonicalize';
import { PurserError } from '../shared/errors.ts';

/**
 * What two requests have to have in common to be the same one: SHA-256 of the canonical body (RFC 8785), so that white
 * space, the order of members and the spelling of numbers do not matter. A member that is null is one that is left out.
 * @param body as it was sent, before anything in it was understood; undefined for none, which is an empty object
 * @param personId who asks, where an answer is one person's: another one's may not pass for it
 */
export function hashBody(body: unknown, { personId }: { personId?: string | undefined } = {}): Buffer {
  const given = Object.entries((body ?? {}) as Record<string, unknown>).filter(([, value]) => value !== null);
  const hash = createHash('sha256').update(canonical(Object.fromEntries(given)));
  if (personId !== undefined) hash.update(`\n${personId}`);
  return hash.digest();
}

/** Some 50 ms and 16 MB a guess. */
const hardening: ScryptOptions = { N: 2 ** 14, r: 8, p: 1 };

/**
 * The same for a body that holds a secret which somebody may have made up: whoever reads the database could otherwise try
 * out what it is, millions of times a second.
 * @param salt of its own for each key
 */
export function hardenHash(hash: Buffer, { salt }: { salt: string }): Promise<Buffer> {
  return derive(hash, salt, hash.length, hardening);
}

const derive = promisify<Buffer, string, number, ScryptOptions, Buffer>(scrypt);

function canonical(body: Record<string, unknown>): string {
  try {
    return canonicalize(body)!;
  } catch (error) {
    const message =
      'The body holds an unpaired surrogate or a number that is too large: it has no canonical form (RFC 8785).';
    throw new PurserError('invalid_request', message, { cause: error });
  }
}
