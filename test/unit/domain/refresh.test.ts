import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { graceMs, judgeRefresh } from '../../../shared/domain/refresh.ts';

describe('what a refresh token is good for', () => {
  it('is its successor, once', () => {
    expect(judgeRefresh({ secondsLeft: 1, usedMsAgo: null })).toBe('rotate');
  });

  it('is nothing once its time is over', () => {
    for (const secondsLeft of [0, -1]) expect(judgeRefresh({ secondsLeft, usedMsAgo: null })).toBe('expired');
  });

  it('is the same successor for 30 seconds after its use, and the end of the session from then on', () => {
    expect(graceMs).toBe(30_000);
    for (const usedMsAgo of [0, 30_000]) expect(judgeRefresh({ secondsLeft: 1, usedMsAgo })).toBe('repeat');
    expect(judgeRefresh({ secondsLeft: 1, usedMsAgo: 30_001 })).toBe('reused');
    const any = fc.integer({ min: -1_000, max: 3_000_000 });
    fc.assert(
      fc.property(any, fc.integer({ min: 0, max: 30_000 }), (secondsLeft, usedMsAgo) => {
        expect(judgeRefresh({ secondsLeft, usedMsAgo })).toBe('repeat');
      }),
    );
    fc.assert(
      fc.property(any, fc.integer({ min: 30_001 }), (secondsLeft, usedMsAgo) => {
        expect(judgeRefresh({ secondsLeft, usedMsAgo })).toBe('reused');
      }),
    );
  });
});
