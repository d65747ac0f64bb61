/**
 * Asks about many things in turns of so many: an endpoint has a few seconds for all that it is asked at once, and one that
 * takes single questions would never be done with hundreds.
 * @param ask answers a batch, one answer each, in its order
 */
export async function inBatches<T, R>(
  items: readonly T[],
  size: number,
  ask: (batch: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const answers: R[] = [];
  for (let start = 0; start < items.length; start += size)
    answers.push(...(await ask(items.slice(start, start + size))));
  return answers;
}
