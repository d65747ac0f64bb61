import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { soundJson } from '../../../shared/domain/sound-json.ts';

const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));

describe('a JSON value made sound', () => {
  it('is the same where nothing is wrong with it', () =>
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 6 }), (value) => {
        expect(JSON.stringify(soundJson(value))).toBe(JSON.stringify(value));
      }),
    ));

  it('has a canonical form, whatever it was', () =>
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), fc.string({ unit: 'binary' }), (text, key) => {
        const value = { [`\ud800${key}`]: JSON.parse(text), text: `${key}\udfff` };
        expect(canonicalize(soundJson(value))).toBeTypeOf('string');
      }),
    ));

  it('keeps members of every name, and NUL', () => {
    const value = JSON.parse('{"__proto__": {"a": "\\u0000"}, "toJSON": 1, "": [null, -1.5e-7]}') as unknown;
    expect(JSON.stringify(soundJson(value))).toBe(JSON.stringify(value));
  });

  it('ends where nobody could follow', () => {
    expect(JSON.stringify(soundJson(nested(64)))).toBe(JSON.stringify(nested(64)));
    expect(JSON.stringify(soundJson(nested(4_000)))).toContain('[nested too deeply]');
    expect(canonicalize(soundJson(nested(100_000)))).toHaveLength(64 * 2 + '"[nested too deeply]"'.length);
  });
});
