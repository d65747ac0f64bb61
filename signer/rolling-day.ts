/** A day of limits: any 24 hours by this signer's clock, not a calendar day. */
export const DAY_MS = 24 * 60 * 60 * 1000;

/** How much of an asset one slot could cost, from when on: the highest of all that was signed for it until then. */
export interface Level {
  /** Any name of the slot; the same for everything that can happen only once. */
  slot: string;
  /** In minor units of the asset. */
  amountMinor: bigint;
  atMs: number;
}

/**
 * What was signed away within the 24 hours up to `nowMs`: of each slot, how much its highest level rose in them. A slot
 * pays once, whatever was signed for it, so a replacement counts only with what it costs more.
 */
export function spentInDay(levels: Iterable<Level>, nowMs: number): bigint {
  const slots = new Map<string, { before: bigint; highest: bigint }>();
  for (const { slot, amountMinor, atMs } of levels) {
    const known = slots.get(slot) ?? { before: 0n, highest: 0n };
    if (amountMinor > known.highest) known.highest = amountMinor;
    if (atMs <= nowMs - DAY_MS && amountMinor > known.before) known.before = amountMinor;
    slots.set(slot, known);
  }
  let spent = 0n;
  for (const { before, highest } of slots.values()) spent += highest - before;
  return spent;
}

/** Whether something may be signed, and what was signed away before it. */
export type DayVerdict = { verdict: 'within' | 'exceeded' | 'contended'; spentMinor: bigint };

/**
 * @param p.known levels that were signed away; those of the asked slot from before the day as well
 * @param p.pending levels of other signatures under way, which may come to nothing
 * @param p.asked what is to be signed now
 * @returns `contended` where only what is under way is in the way; what raises no level is always within
 */
export function judgeDay(p: {
  known: readonly Level[];
  pending: readonly Level[];
  asked: Level;
  dayMinor: bigint;
}): DayVerdict {
  const { known, pending, asked, dayMinor } = p;
  const nowMs = asked.atMs;
  const spentMinor = spentInDay(known, nowMs);
  const raises = !known.some(({ slot, amountMinor }) => slot === asked.slot && amountMinor >= asked.amountMinor);
  if (!raises) return { verdict: 'within', spentMinor };
  if (spentInDay([...known, asked], nowMs) > dayMinor) return { verdict: 'exceeded', spentMinor };
  const contended = spentInDay([...known, ...pending, asked], nowMs) > dayMinor;
  return { verdict: contended ? 'contended' : 'within', spentMinor };
}
