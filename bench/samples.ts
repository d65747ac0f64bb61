/** Durations by what was measured, in milliseconds. */
export type Durations = Readonly<Record<string, number>>;

/** What many durations come to. Milliseconds. */
export interface Summary {
  readonly n: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly min: number;
  readonly max: number;
}

/** @param values at least one. Percentiles by nearest rank: each is a value that was measured. */
export function summarise(values: readonly number[]): Summary {
  const sorted = values.toSorted((a, b) => a - b);
  const n = sorted.length;
  if (n === 0) throw new RangeError('There is nothing to summarise: no sample was taken.');
  const rank = (percent: number) => sorted[Math.max(0, Math.ceil((percent / 100) * n) - 1)]!;
  return { n, p50: rank(50), p95: rank(95), p99: rank(99), min: sorted[0]!, max: sorted[n - 1]! };
}

/** How often, and how long at most. */
export interface Bounds {
  /** Rounds that are run and not counted. */
  readonly warmUp: number;
  readonly rounds: number;
  /** No round is begun later than this after the first counted one. */
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs all cases in turn, round after round, so that a machine that grows slower or faster meanwhile does so for all.
 * @returns every duration of every counted round, by name
 */
export async function interleave(
  cases: readonly (() => Promise<Durations>)[],
  { warmUp, rounds, limitMs, signal }: Bounds,
): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  let deadline = Number.POSITIVE_INFINITY;
  for (let round = -warmUp; round < rounds; round += 1) {
    if (round === 0) deadline = performance.now() + limitMs;
    if (round > 0 && performance.now() > deadline) break;
    for (const run of cases) {
      signal.throwIfAborted();
      const durations = await run();
      if (round < 0) continue;
      for (const [name, ms] of Object.entries(durations)) {
        const values = found.get(name) ?? [];
        values.push(ms);
        found.set(name, values);
      }
    }
  }
  return found;
}

/** Runs once. @returns how long it took, in milliseconds */
export async function timed(run: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await run();
  return performance.now() - from;
}
