import { type Address, type Hex, numberToHex } from 'viem';
import { type Heard, hearAll, reachedByMost } from '../endpoints/agreement.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';

/**
 * Number of the newest block that more than half of the endpoints that answered have reached. Those behind it are asked
 * last from then on.
 * @throws RpcUnavailable
 */
export async function newestNumber(client: EvmClient): Promise<Hex> {
  const heard = await hearAll(client.endpoints, [{ method: 'eth_blockNumber' }]);
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
  const heard = await hearAll(client.endpoints, [
    { method: 'eth_getTransactionCount', params: [owner as Address, 'latest'] },
  ]);
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
