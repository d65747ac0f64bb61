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
  let index = 0;
  for (const begin of begins) {
    index = Math.max(begin, index);
    for (let end = begin + gapLimit; index < end && found.length < foundMax; ) {
      const indexes = [];
      for (; index < end && !known.has(index); index += 1) indexes.push(index);
      for (const [place, what] of (await look(indexes)).entries()) {
        if (what === undefined) continue;
        found.push({ index: indexes[place]!, what });
        end = indexes[place]! + 1 + gapLimit;
      }
      if (known.has(index)) break;
    }
  }
  return found;
}
