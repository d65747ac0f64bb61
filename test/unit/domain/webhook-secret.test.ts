import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readWebhookSecret } from '../../../shared/domain/webhook-secret.ts';

const bytes = (minLength: number, maxLength = minLength) => fc.uint8Array({ minLength, maxLength });
const base64 = (given: Uint8Array) => Buffer.from(given).toString('base64');
const utf8 = (text: string) => new TextEncoder().encode(text);

describe('the secret of a webhook', () => {
  it('that is canonical base64 of 24 to 64 bytes is those bytes', () => {
    fc.assert(
      fc.property(bytes(24, 64), (key) => {
        expect(readWebhookSecret(`whsec_${base64(key)}`)).toEqual({ format: 'base64', key });
      }),
    );
  });

  it.each([24, 64])('is base64 at %i bytes, the last that is', (length) => {
    expect(readWebhookSecret(`whsec_${base64(new Uint8Array(length))}`)).toMatchObject({ format: 'base64' });
  });

  it.each([23, 65])('is text at %i bytes of base64, and its key are the characters', (length) => {
    const rest = base64(new Uint8Array(length).fill(7));
    expect(readWebhookSecret(`whsec_${rest}`)).toEqual({ format: 'utf8', key: utf8(rest) });
  });

  it('that is almost base64 is text: without its padding, in the url alphabet, with bits that say nothing, with spaces', () => {
    const padded = base64(new Uint8Array(32).fill(0xfb));
    expect(padded).toMatch(/=$/);
    for (const rest of [
      padded.replace(/=+$/, ''),
      padded.replaceAll('+', '-').replaceAll('/', '_'),
      padded.replace(/.=$/, 't='),
      `${padded.slice(0, 10)} ${padded.slice(10)}`,
      `${padded}=`,
    ]) {
      expect(rest).not.toBe(padded);
      expect([rest, readWebhookSecret(`whsec_${rest}`)]).toEqual([rest, { format: 'utf8', key: utf8(rest) }]);
    }
  });

  it('that is text is its bytes in UTF-8, from 16 up', () => {
    expect(readWebhookSecret('whsec_16-bytes-of-text')).toEqual({ format: 'utf8', key: utf8('16-bytes-of-text') });
    expect(readWebhookSecret('whsec_15bytes-of-text')).toMatchObject({
      fault: expect.stringMatching(/at least 16 bytes/),
    });
    // Eight characters of two bytes each.
    expect(readWebhookSecret('whsec_ääääääää')).toMatchObject({ format: 'utf8' });
  });

  it.each([
    ['', /must begin with whsec_/],
    ['WHSEC_c2VjcmV0LW9mLW1vcmUtdGhhbi0yNC1ieXRlcw==', /must begin with whsec_/],
    ['whsec_', /at least 16 bytes/],
    [`whsec_${'a'.repeat(251)}`, /at most 256 characters/],
    ['whsec_more than sixteen bytes\n', /copied with a line end/],
    [' whsec_more than sixteen bytes', /must begin with whsec_/],
    ['whsec_more than sixteen\0bytes', /control characters/],
    ['whsec_more than sixteen \ud800 bytes', /unpaired surrogates/],
  ])('%j is refused by a sentence', (text, sentence) => {
    expect(readWebhookSecret(text)).toEqual({ fault: expect.stringMatching(sentence) });
  });

  it('counts characters, not halves of them, at 256', () => {
    expect(readWebhookSecret(`whsec_${'💸'.repeat(250)}`)).toMatchObject({ format: 'utf8' });
    expect(readWebhookSecret(`whsec_${'💸'.repeat(251)}`)).toMatchObject({ fault: expect.any(String) });
  });

  it('is never repeated by the sentence that refuses it, and nothing throws', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string().map((text) => `whsec_${text}`),
        ),
        (text) => {
          const read = readWebhookSecret(text);
          const rest = text.replace(/^whsec_/, '');
          if ('fault' in read && rest.trim().length > 8) expect(read.fault).not.toContain(rest);
          if ('key' in read) expect(read.key.length).toBeGreaterThanOrEqual(16);
        },
      ),
    );
  });
});
