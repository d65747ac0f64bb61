import { type Address, type Hex, numberToHex } from 'viem';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';
import type { Endpoint, RpcCall } from './endpoint.ts';
import { mostTelling } from './endpoint-failure.ts';
import { rpcUnavailable } from './rpc.ts';

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
export async function hearAll(client: EvmClient, calls: readonly RpcCall[]): Promise<Heard[]> {
  const testimonies = await client.endpoints.askAll({ calls });
  const all = testimonies.flatMap(({ answers }) => answers);
  const heard = testimonies
    .filter(({ answers }) => answers.some((each) => each.status === 'fulfilled'))
    .map(({ endpoint, answers }) => ({
      endpoint,
      answers: answers.map((each) => (each.status === 'fulfilled' ? each.value : undefined)),
    }));
  if (heard.length > 0) return heard;
  const errors = all.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
  throw errors.length > 0
    ? rpcUnavailable(mostTelling(errors))
    : new RpcUnavailable('No endpoint of the chain answered in time.');
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

/**
 * Number of the newest block that more than half of the endpoints that answered have reached. Those behind it are asked
 * last from then on.
 * @throws RpcUnavailable
 */
export async function newestNumber(client: EvmClient): Promise<Hex> {
  const heard = await hearAll(client, [{ method: 'eth_blockNumber' }]);
  const heights = quantities(heard);
  const newest = reachedByMost(heights.map(({ value }) => value));
  client.endpoints.noteAgreeing(new Set(heights.filter(({ value }) => value >= newest).map((each) => each.endpoint)));
  return numberToHex(newest);
}

/**
 * How many transactions of an address are mined, as far as more than half of the endpoints that answered have seen: one
 * that lags, or that lies, neither lowers nor raises it.
 * @throws RpcUnavailable
 */
export async function minedTransactions(client: EvmClient, { owner }: { owner: string }): Promise<number> {
  const heard = await hearAll(client, [{ method: 'eth_getTransactionCount', params: [owner as Address, 'latest'] }]);
  return reachedByMost(quantities(heard).map(({ value }) => value));
}

/** The first answer of each endpoint as a number. @throws RpcUnavailable when none is one */
function quantities(heard: readonly Heard[]): { endpoint: Endpoint; value: number }[] {
  const numbers = heard
    .map(({ endpoint, answers }) => ({ endpoint, value: Number(answers[0]) }))
    .filter(({ value }) => Number.isSafeInteger(value));
  if (numbers.length === 0) throw new RpcUnavailable('No endpoint of the chain answered with a number.');
  return numbers;
}
