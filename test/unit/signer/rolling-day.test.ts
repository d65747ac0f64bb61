import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DAY_MS, judgeDay, type Level, spentInDay } from '../../../signer/rolling-day.ts';

const at = (hours: number) => hours * 3_600_000;
const level = (slot: string, amount: number, hours: number): Level => ({
  slot,
  amountMinor: BigInt(amount),
  atMs: at(hours),
});

const levels = fc.array(
  fc.record({
    slot: fc.constantFrom('a', 'b', 'c', 'd'),
    amountMinor: fc.bigInt(0n, 50n),
    atMs: fc.integer({ min: 0, max: 4 * DAY_MS }),
  }),
  { maxLength: 30 },
);
const nowMs = 4 * DAY_MS;

describe('what was signed away in a day', () => {
  it('counts a slot once, and a replacement only with what it costs more', () => {
    const known = [level('a', 100, 1), level('a', 110, 2), level('a', 105, 3), level('b', 7, 3)];
    expect(spentInDay(known, at(4))).toBe(117n);
  });

  it('forgets after 24 hours, to the millisecond, and then counts a rise alone', () => {
    const known = [level('a', 100, 0), level('a', 110, 12)];
    expect(spentInDay(known, DAY_MS - 1)).toBe(110n);
    expect(spentInDay(known, DAY_MS)).toBe(10n);
    expect(spentInDay(known, at(36))).toBe(0n);
  });

  it('is the sum of what each slot rose, in whatever order its levels are known', () => {
    fc.assert(
      fc.property(levels, (known) => {
        let expected = 0n;
        for (const slot of new Set(known.map((each) => each.slot))) {
          let highest = 0n;
          const own = known.filter((each) => each.slot === slot);
          // By time; of the same moment the highest alone counts.
          for (const { amountMinor, atMs } of own.toSorted((a, b) => a.atMs - b.atMs)) {
            if (amountMinor <= highest) continue;
            if (atMs > nowMs - DAY_MS) expected += amountMinor - highest;
            highest = amountMinor;
          }
        }
        expect(spentInDay(known, nowMs)).toBe(expected);
        expect(spentInDay(known.toReversed(), nowMs)).toBe(expected);
        expect(spentInDay([...known, ...known], nowMs)).toBe(expected);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a verdict on a day', () => {
  const asked = (slot: string, amount: number): Level => level(slot, amount, 4);
  const dayMinor = 100n;

  it('lets everything through to the last unit, and nothing beyond', () => {
    const known = [level('a', 60, 1)];
    const judge = (amount: number) => judgeDay({ known, pending: [], asked: asked('b', amount), dayMinor });
    expect(judge(40)).toEqual({ verdict: 'within', spentMinor: 60n });
    expect(judge(41)).toEqual({ verdict: 'exceeded', spentMinor: 60n });
  });

  it('tells what is under way from what was signed away', () => {
    const judge = (known: Level[], pending: Level[], amount: number) =>
      judgeDay({ known, pending, asked: asked('b', amount), dayMinor }).verdict;
    expect(judge([], [level('a', 60, 4)], 41)).toBe('contended');
    expect(judge([], [level('a', 60, 4)], 40)).toBe('within');
    expect(judge([level('c', 60, 4)], [level('a', 60, 4)], 41)).toBe('exceeded');
    // The same slot, twice under way, pays once.
    expect(judge([], [level('b', 90, 4)], 91)).toBe('within');
  });

  it('never holds back what raises no level, also where the limit was lowered since', () => {
    const known = [level('a', 500, 1)];
    const judge = (amount: number) => judgeDay({ known, pending: [], asked: asked('a', amount), dayMinor }).verdict;
    expect(judge(500)).toBe('within');
    expect(judge(499)).toBe('within');
    expect(judge(501)).toBe('exceeded');
  });

  it('keeps every 24 hours of whatever is asked within the limit, and refuses nothing that would fit', () => {
    const asks = fc.array(
      fc.record({
        slot: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
        amountMinor: fc.bigInt(1n, 60n),
        waitMs: fc.integer({ min: 0, max: DAY_MS / 2 }),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(asks, (all) => {
        const known: Level[] = [];
        let atMs = 0;
        for (const { slot, amountMinor, waitMs } of all) {
          atMs += waitMs;
          const before = spentInDay(known, atMs);
          const next = { slot, amountMinor, atMs };
          const fits = spentInDay([...known, next], atMs) <= dayMinor;
          const { verdict } = judgeDay({ known, pending: [], asked: next, dayMinor });
          expect(verdict).toBe(fits ? 'within' : 'exceeded');
          expect(before <= dayMinor).toBe(true);
          if (verdict === 'within') known.push(next);
        }
      }),
      { numRuns: 300 },
    );
  });
});
