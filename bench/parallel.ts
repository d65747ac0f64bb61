/** What a run with many at a time came to. */
export interface Throughput {
  readonly done: number;
  readonly seconds: number;
  readonly perSecond: number;
}

/**
 * Keeps `width` runs under way, a new one beginning when one ends, until `total` have ended. The clock runs from the
 * first beginning to the last end, so the emptying at the end counts.
 * @param run gets the number of the lane, from 0, and of the run
 */
export async function inParallel(
  run: (o: { lane: number; index: number }) => Promise<unknown>,
  o: { width: number; total: number; limitMs: number; signal: AbortSignal },
): Promise<Throughput> {
  const from = performance.now();
  let begun = 0;
  let done = 0;
  const work = async (lane: number) => {
    while (begun < o.total && performance.now() - from < o.limitMs) {
      o.signal.throwIfAborted();
      const index = begun;
      begun += 1;
      await run({ lane, index });
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: o.width }, (_, lane) => work(lane)));
  const seconds = (performance.now() - from) / 1000;
  return { done, seconds, perSecond: done / seconds };
}
