import { describe, expect, it } from 'vitest';
import { readIdempotencyKey } from '../../../api/idempotency-key.ts';
import { PurserError } from '../../../shared/errors.ts';

type Headers = Record<string, string[]>;

const key = (...values: string[]): Headers => ({ 'idempotency-key': values });
const alias = (...values: string[]): Headers => ({ 'x-idempotency-key': values });

function refusalOf(headersDistinct: Headers): PurserError {
  try {
    readIdempotencyKey({ headersDistinct });
  } catch (error) {
    if (error instanceof PurserError) return error;
    throw error;
  }
  throw new Error('It was taken.');
}

describe('an Idempotency-Key', () => {
  it.each<[string, Headers, string | undefined]>([
    ['none', {}, undefined],
    ['one character', key('a'), 'a'],
    ['255 characters', key('a'.repeat(255)), 'a'.repeat(255)],
    [
      'all of printable ASCII',
      key('! "#$%&\'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~'),
      '! "#$%&\'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~',
    ],
    ['the alias', alias('a'), 'a'],
    ['both with one value', { ...key('a'), ...alias('a') }, 'a'],
    ['the same header twice with one value', key('a', 'a'), 'a'],
    ['one whose case counts', key('aB'), 'aB'],
  ])('is taken as it is: %s', (_name, headersDistinct, expected) => {
    expect(readIdempotencyKey({ headersDistinct })).toBe(expected);
  });

  it.each<[string, Headers, string, RegExp]>([
    ['empty', key(''), 'Idempotency-Key', /is empty\. Send 1 to 255/],
    ['an empty alias', alias(''), 'X-Idempotency-Key', /X-Idempotency-Key is empty/],
    ['256 characters', key('a'.repeat(256)), 'Idempotency-Key', /has 256 characters; at most 255/],
    ['a tab', key('a\tb'), 'Idempotency-Key', /not printable ASCII/],
    ['delete', key('a\x7f'), 'Idempotency-Key', /not printable ASCII/],
    ['Latin-1, as the parser gives UTF-8', key('Ã¤'), 'Idempotency-Key', /not printable ASCII/],
    ['sent twice with two values', key('a', 'b'), 'Idempotency-Key', /Idempotency-Key is sent twice/],
    ['an alias sent twice with two values', alias('a', 'b'), 'X-Idempotency-Key', /X-Idempotency-Key is sent twice/],
    [
      'both with two values',
      { ...key('a'), ...alias('b') },
      'X-Idempotency-Key',
      /Idempotency-Key and X-Idempotency-Key differ/,
    ],
    ['both, one of them empty', { ...key('a'), ...alias('') }, 'X-Idempotency-Key', /differ/],
    ['both that differ in case', { ...key('a'), ...alias('A') }, 'X-Idempotency-Key', /differ/],
  ])('is refused with 400: %s', (_name, headersDistinct, param, message) => {
    const refusal = refusalOf(headersDistinct);
    expect([refusal.code, refusal.param]).toEqual(['invalid_request', param]);
    expect(refusal.message).toMatch(message);
  });
});
