import type { IncomingMessage } from 'node:http';
import { PurserError } from '../shared/errors.ts';

/** The header, and its alias. */
const idempotencyHeaders = ['Idempotency-Key', 'X-Idempotency-Key'] as const;
/** Longest key, in characters. */
export const maxKeyLength = 255;

const printable = /^[\x20-\x7e]+$/;

/**
 * The key that a request carries, as it was sent; undefined for none.
 * @throws PurserError 400 where it is no key, or where the headers name more than one
 */
export function readIdempotencyKey({ headersDistinct }: Pick<IncomingMessage, 'headersDistinct'>): string | undefined {
  const given = idempotencyHeaders.filter((name) => headersDistinct[name.toLowerCase()] !== undefined);
  const keys = new Set(given.flatMap((name) => headersDistinct[name.toLowerCase()]!));
  const [header = idempotencyHeaders[0]] = given;
  const [key] = keys;
  if (key === undefined) return undefined;
  if (keys.size > 1)
    throw refused(given.length > 1 ? 'X-Idempotency-Key' : header, {
      message: `${given.join(' and ')} ${given.length > 1 ? 'differ' : 'is sent twice, with different values'}. Send one key, once.`,
    });
  if (key === '')
    throw refused(header, { message: `${header} is empty. Send 1 to ${maxKeyLength} characters, or leave it out.` });
  if (key.length > maxKeyLength)
    throw refused(header, { message: `${header} has ${key.length} characters; at most ${maxKeyLength} are allowed.` });
  if (!printable.test(key))
    throw refused(header, {
      message: `${header} holds characters that are not printable ASCII. A UUID is a good key.`,
    });
  return key;
}

function refused(param: string, { message }: { message: string }): PurserError {
  return new PurserError('invalid_request', message, { param });
}
