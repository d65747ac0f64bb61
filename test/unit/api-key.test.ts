import { describe, expect, it } from 'vitest';
import { hashApiKey, isApiKey, makeApiKey } from '../../shared/api-key.ts';

describe('an API key', () => {
  it('carries its environment and is known by its form there only', () => {
    const test = makeApiKey({ environment: 'sandbox' });
    const live = makeApiKey({ environment: 'production' });
    expect(test.key).toMatch(/^purser_test_[0-9A-Za-z]{49}$/);
    expect(live.key).toMatch(/^purser_live_[0-9A-Za-z]{49}$/);
    expect(isApiKey(test.key, { environment: 'sandbox' })).toBe(true);
    expect(isApiKey(test.key, { environment: 'production' })).toBe(false);
    expect(isApiKey(live.key.replace('live', 'test'), { environment: 'sandbox' })).toBe(false);
  });

  it('is refused with any one character changed', () => {
    const { key } = makeApiKey({ environment: 'sandbox' });
    for (let place = 0; place < key.length; place += 1) {
      const other = key[place] === 'a' ? 'b' : 'a';
      const changed = key.slice(0, place) + other + key.slice(place + 1);
      expect([place, isApiKey(changed, { environment: 'sandbox' })]).toEqual([place, false]);
    }
  });

  it('is never the same twice, and is shown by four of its characters', () => {
    const keys = Array.from({ length: 100 }, () => makeApiKey({ environment: 'sandbox' }));
    expect(new Set(keys.map((each) => each.key)).size).toBe(100);
    for (const { key, prefix, hash } of keys) {
      expect(prefix).toBe(`${key.slice(0, 16)}…`);
      expect(hash).toEqual(hashApiKey(key));
    }
  });
});
