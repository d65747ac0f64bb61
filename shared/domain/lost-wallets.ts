/** As BIP-44 has it: where so many wallets in a row were never used, those behind them are taken to be as well. */
export const gapLimit = 20;
/** Wallets of one key that are looked for: far more than an account makes in the time that a restore may lose. */
const foundMax = 100;

/**
 * Looks for wallets that were lost among a key's children: after each that is known, and after each that is found, at the
 * next {@link gapLimit} that nobody has.
 * @param p.used children that are known, in any order
 * @param p.nextIndex the child that would be given out next: the last ones may be behind it, as where their row is lost
 * @param p.look at some children at once: what each of them has, undefined for nothing
 */
export async function findLost<T>({
  used,
  nextIndex,
  look,
}: {
  used: readonly number[];
  nextIndex: number;
  look: (indexes: readonly number[]) => Promise<(T | undefined)[]>;
}): Promise<{ index: number; what: T }[]> {
  const known = new Set(used);
  // Each begins a gap that may have lost wallets in it.
  const begins = [0, nextIndex, ...[...known].map((index) => index + 1)].toSorted((a, b) => a - b);
  const found: { index: number; what: T }[] = [];
  let seenBelow = 0;
  for (const begin of begins) {
    let index = Math.max(begin, seenBelow);
    for (let empty = 0; empty < gapLimit && found.length < foundMax; ) {
      const indexes = [];
      for (; indexes.length < gapLimit - empty && !known.has(index); index += 1) indexes.push(index);
      for (const [place, what] of (await look(indexes)).entries()) {
        empty = what === undefined ? empty + 1 : 0;
        if (what !== undefined) found.push({ index: indexes[place]!, what });
      }
      if (known.has(index)) break;
    }
    seenBelow = index;
  }
  return found;
}
