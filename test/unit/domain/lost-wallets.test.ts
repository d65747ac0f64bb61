import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findLost, gapLimit } from '../../../shared/domain/lost-wallets.ts';

/** Looks in a world in which these children hold something. */
async function find(p: { used?: readonly number[]; nextIndex?: number; funded: readonly number[] }) {
  const asked: number[] = [];
  const { used = [], nextIndex = 0, funded } = p;
  const found = await findLost({
    ...{ used, nextIndex },
    look: async (indexes) => {
      asked.push(...indexes);
      return indexes.map((index) => (funded.includes(index) ? `money of ${index}` : undefined));
    },
  });
  return { found: found.map(({ index }) => index), asked, what: found.map(({ what }) => what) };
}

describe('wallets that were lost', () => {
  it('are found behind the last one that is known, one behind the other, and told with what they hold', async () => {
    const { found, what, asked } = await find({ used: [0, 1, 2], nextIndex: 3, funded: [3, 5, 24] });
    expect([found, what]).toEqual([
      [3, 5, 24],
      ['money of 3', 'money of 5', 'money of 24'],
    ]);
    expect(asked).toHaveLength(24 - 3 + 1 + gapLimit);
  });

  it('are looked for no further than twenty empty ones', async () => {
    expect((await find({ funded: [gapLimit - 1] })).found).toEqual([gapLimit - 1]);
    expect((await find({ funded: [gapLimit] })).found).toEqual([]);
  });

  it('are found between known ones, and where the next one was to be given out', async () => {
    expect((await find({ used: [0, 1003], nextIndex: 2004, funded: [1, 1002, 1010, 2004] })).found).toEqual([
      1, 1010, 2004,
    ]);
  });

  it('are found up to a hundred of one key', async () => {
    const funded = Array.from({ length: 300 }, (_, index) => index);
    const { found } = await find({ funded });
    expect(found.length).toBeGreaterThanOrEqual(100);
    expect(found.length).toBeLessThan(100 + gapLimit);
  });

  it('are each asked for once, none of them is a known one, and none within the limit is passed over', async () => {
    const indexes = fc.uniqueArray(fc.nat(150), { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(indexes, indexes, fc.nat(150), async (used, funded, nextIndex) => {
        const { found, asked } = await find({ used, nextIndex, funded });
        expect(new Set(asked).size).toBe(asked.length);
        expect(asked.filter((index) => used.includes(index))).toEqual([]);
        expect(found).toEqual(asked.filter((index) => funded.includes(index)));
        // Whatever lies within the limit behind a beginning, a known wallet or one that holds something.
        const anchors = [-1, nextIndex - 1, ...used, ...found];
        for (const index of funded.filter((each) => !used.includes(each))) {
          const isNear = anchors.some((anchor) => index > anchor && index - anchor <= gapLimit);
          if (isNear) expect(found).toContain(index);
        }
      }),
    );
  });
});
