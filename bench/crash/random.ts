/** Numbers that follow from a seed alone. */
export interface Random {
  /** A whole number, both ends included. */
  int(min: number, max: number): number;
  chance(probability: number): boolean;
  pick<T>(values: readonly T[]): T;
  /** One of the values, each as likely as its weight says. */
  weighted<T>(values: readonly (readonly [value: T, weight: number])[]): T;
}

/**
 * splitmix32 (the 32-bit form of Steele, Lea and Flood's SplitMix, OOPSLA 2014): every seed gives a good sequence, also
 * seeds that lie close together.
 */
export function createRandom(seed: number): Random {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
  const share = () => next() / 2 ** 32;
  return {
    int: (min, max) => min + Math.floor(share() * (max - min + 1)),
    chance: (probability) => share() < probability,
    pick: (values) => values[Math.floor(share() * values.length)]!,
    weighted(values) {
      let left = share() * values.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [value, weight] of values) {
        left -= weight;
        if (left < 0) return value;
      }
      return values.at(-1)![0];
    },
  };
}

/** The seed of one round of a run. */
export function roundSeed(runSeed: number, round: number): number {
  return createRandom(runSeed + Math.imul(round, 0x9e3779b1)).int(0, 2 ** 32 - 1);
}
