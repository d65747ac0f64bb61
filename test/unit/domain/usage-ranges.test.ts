import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { levelUnitsMs, windowRanges } from '../../../shared/domain/policy/window-ranges.ts';

/** How often an instant is counted: by the raw edge, or by a slot of a range. */
function timesCounted(startMs: number, instantMs: number): number {
  const { edgeEndMs, ranges } = windowRanges(startMs);
  const inEdge = instantMs > startMs && instantMs < edgeEndMs ? 1 : 0;
  return ranges.reduce((times, { level, fromSlot, toSlot }) => {
    const slot = Math.floor(instantMs / levelUnitsMs[level]!);
    return times + (slot >= fromSlot && slot < toSlot ? 1 : 0);
  }, inEdge);
}

const start = fc.oneof(
  fc.integer({ min: 0, max: 8_000_000_000_000 }),
  // On, right before and right after the borders of slots.
  fc
    .tuple(fc.constantFrom(...levelUnitsMs), fc.integer({ min: 1, max: 20_000 }), fc.integer({ min: -2, max: 2 }))
    .map(([unitMs, slot, off]) => unitMs * slot + off),
);
const offset = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.integer({ min: -(2 ** 12), max: 2 ** 12 }),
  fc.integer({ min: -(2 ** 30), max: 2 ** 30 }),
  fc.integer({ min: 0, max: 40_000_000_000 }),
);

describe('windowRanges', () => {
  it('property: counts every instant after the start once, and no other', () => {
    fc.assert(
      fc.property(start, offset, (startMs, offsetMs) => {
        expect(timesCounted(startMs, startMs + offsetMs)).toBe(offsetMs > 0 ? 1 : 0);
      }),
      { numRuns: 20_000 },
    );
  });

  it('property: counts the borders of its ranges once as well', () => {
    fc.assert(
      fc.property(start, (startMs) => {
        const { edgeEndMs, ranges } = windowRanges(startMs);
        const borders = ranges.flatMap(({ level, fromSlot, toSlot }) =>
          [fromSlot, toSlot].map((slot) => slot * levelUnitsMs[level]!),
        );
        for (const border of [edgeEndMs, ...borders.filter((each) => each < 2 ** 45)])
          for (const instantMs of [border - 1, border, border + 1])
            expect(timesCounted(startMs, instantMs)).toBe(instantMs > startMs ? 1 : 0);
      }),
      { numRuns: 2_000 },
    );
  });

  it('property: looks one by one at no more than the shortest slot, and at few slots of each level', () => {
    fc.assert(
      fc.property(start, (startMs) => {
        const { edgeEndMs, ranges } = windowRanges(startMs);
        expect(edgeEndMs - startMs).toBeLessThanOrEqual(levelUnitsMs[0]!);
        for (const { level, fromSlot, toSlot } of ranges.filter((each) => each.level < levelUnitsMs.length - 1))
          expect(toSlot - fromSlot, `level ${level}`).toBeLessThan(64);
      }),
    );
  });
});
