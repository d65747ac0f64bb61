import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSecretBytes } from '../support/secret-bytes.ts';

const forms: Record<string, (bytes: Buffer) => Uint8Array | string> = {
  bytes: (bytes) => bytes,
  hexadecimal: (bytes) => bytes.toString('hex'),
  'capital hexadecimal': (bytes) => bytes.toString('hex').toUpperCase(),
  base64: (bytes) => bytes.toString('base64'),
  base64url: (bytes) => bytes.toString('base64url'),
  'a Buffer in JSON': (bytes) => JSON.stringify(bytes),
  'an array of bytes in JSON': (bytes) => JSON.stringify(new Uint8Array(bytes)),
};

describe('the search for secret bytes', () => {
  it.each(Object.keys(forms))('finds any 32 of them, wherever they begin and whatever is around: as %s', (name) => {
    const secret = randomBytes(1_000);
    const search = createSecretBytes();
    search.note('the share', secret);
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: secret.length - 32 }),
        fc.uint8Array({ maxLength: 20 }),
        fc.uint8Array({ maxLength: 20 }),
        (at, before, behind) => {
          const written = forms[name]!(Buffer.concat([before, secret.subarray(at, at + 32), behind]));
          const content = Buffer.concat([Buffer.from('{"x":"'), Buffer.from(written), Buffer.from('"}')]);
          expect(search.findIn(content)).toEqual(['the share']);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('finds a key of 32 bytes by either half, and says which of several it is', () => {
    const [one, other] = [randomBytes(32), randomBytes(32)];
    const search = createSecretBytes();
    search.note('one', one);
    search.note('the other', other);
    expect(search.findIn(one.subarray(0, 16))).toEqual(['one']);
    expect(search.findIn(Buffer.from(other.subarray(16).toString('base64')))).toEqual(['the other']);
    expect(search.findIn(Buffer.concat([one, other])).toSorted()).toEqual(['one', 'the other']);
  });

  it('finds nothing in what is not secret: other bytes, zeros, what may be known of it', () => {
    const known = randomBytes(65);
    const secret = Buffer.concat([randomBytes(160), known, Buffer.alloc(300), randomBytes(160)]);
    const search = createSecretBytes();
    search.note('the share', secret, [known]);
    expect(search.findIn(randomBytes(1_000_000))).toEqual([]);
    expect(search.findIn(Buffer.alloc(1_000))).toEqual([]);
    for (const form of Object.values(forms)) expect(search.findIn(Buffer.from(form(known)))).toEqual([]);
    expect(search.findIn(Buffer.concat([known, secret.subarray(0, 40)]))).toEqual(['the share']);
  });
});
