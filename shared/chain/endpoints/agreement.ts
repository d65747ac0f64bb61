import { RpcUnavailable } from '../errors.ts';
import type { Endpoint } from './endpoint.ts';
import type { EndpointPool, Testimony } from './endpoint-pool.ts';

/** What one endpoint answered; of several calls, each that failed is `undefined`. */
export interface Heard {
  readonly endpoint: Endpoint;
  readonly answers: readonly unknown[];
}

/**
 * Asks all endpoints the same things.
 * @returns what those said that answered at least one of them, best endpoint first
 * @throws RpcUnavailable when none did
 */
export async function hearAll<Call>(endpoints: EndpointPool<Call>, calls: readonly Call[]): Promise<Heard[]> {
  const testimonies = await endpoints.askAll({ calls });
  const heard = testimonies
    .filter(({ answers }) => answers.some((each) => each.status === 'fulfilled'))
    .map(({ endpoint, answers }) => ({
      endpoint,
      answers: answers.map((each) => (each.status === 'fulfilled' ? each.value : undefined)),
    }));
  if (heard.length > 0) return heard;
  throw unavailableAfter(endpoints, testimonies);
}

/** What to throw when nothing that was heard is of use: the error that says most. */
export function unavailableAfter(
  { judge }: Pick<EndpointPool<unknown>, 'judge'>,
  testimonies: readonly Testimony[],
): RpcUnavailable {
  const errors = testimonies.flatMap(({ answers }) =>
    answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : [])),
  );
  if (errors.length === 0) return new RpcUnavailable('No endpoint of the chain answered in time.');
  return judge.asUnavailable(judge.mostTelling(errors));
}

/** The largest number that more than half of these have reached. @param numbers one or more */
export function reachedByMost(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => b - a)[Math.floor(numbers.length / 2)]!;
}

/** What was named most often, and how often; of equals, what was named first. @param votes in order of preference */
export function mostNamed<T>(
  votes: readonly T[],
  key: (vote: T) => string,
): { readonly vote: T; readonly count: number } | undefined {
  const tally = new Map<string, { vote: T; count: number }>();
  for (const vote of votes) {
    const entry = tally.get(key(vote)) ?? { vote, count: 0 };
    tally.set(key(vote), { ...entry, count: entry.count + 1 });
  }
  return [...tally.values()].reduce<{ vote: T; count: number } | undefined>(
    (best, entry) => (best && best.count >= entry.count ? best : entry),
    undefined,
  );
}
