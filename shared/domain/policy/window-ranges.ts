/** Lengths in milliseconds of the slots in which settled amounts are summed; each is a multiple of the one before. */
export const levelUnitsMs: readonly number[] = [2 ** 10, 2 ** 16, 2 ** 22, 2 ** 28];

/** Slots `fromSlot <= slot < toSlot` of a level; the last level has no end. */
export interface SlotRange {
  readonly level: number;
  readonly fromSlot: number;
  readonly toSlot: number;
}

export interface WindowRanges {
  /** Instants `startMs < t < edgeEndMs` lie in a slot that the window cuts: they are looked at one by one. */
  readonly edgeEndMs: number;
  readonly ranges: readonly SlotRange[];
}

/** More than any slot of our time. */
const noEnd = 2 ** 50;

/**
 * Splits everything after an instant into a few ranges of whole slots, fine near the instant and coarse far from it, so
 * that summing a window costs the same however much happened in it.
 * @param startMs Unix time in milliseconds; itself outside the window
 */
export function windowRanges(startMs: number): WindowRanges {
  const ends = levelUnitsMs.map((unitMs) => (Math.floor(startMs / unitMs) + 1) * unitMs);
  const ranges = levelUnitsMs.map((unitMs, level) => {
    const next = ends[level + 1];
    return { level, fromSlot: ends[level]! / unitMs, toSlot: next === undefined ? noEnd : next / unitMs };
  });
  return { edgeEndMs: ends[0]!, ranges: ranges.filter(({ fromSlot, toSlot }) => fromSlot < toSlot) };
}
