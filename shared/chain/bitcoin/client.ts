import type { Logger } from '../../log.ts';
import type { Driver } from '../endpoints/driver.ts';
import { WrongChain } from '../endpoints/endpoint.ts';
import { createEndpointPool, type EndpointPool } from '../endpoints/endpoint-pool.ts';
import type { EndpointWatch } from '../endpoints/endpoint-watch.ts';
import { createHttpDriver } from '../endpoints/http.ts';
import { httpJudge } from '../endpoints/http-failure.ts';
import type { BitcoinBackend, BitcoinCall } from './backend.ts';
import { createEsploraBackend } from './esplora-backend.ts';

/** All servers of one chain. */
export type BitcoinClient = EndpointPool<BitcoinCall>;

/**
 * @param urls servers of the Esplora HTTP API, in the order in which they are asked while they do equally well; may hold
 *   credentials, which are never logged nor put into errors
 * @param chain CAIP-2 id; a server of another chain is not used
 */
export function createBitcoinClient({
  urls,
  chain,
  logger,
  watch,
}: {
  urls: readonly string[];
  chain: string;
  logger?: Logger | undefined;
  watch?: EndpointWatch | undefined;
}): BitcoinClient {
  return createEndpointPool({ urls, connect: (url) => connect({ url, chain }), judge: httpJudge, logger, watch });
}

function connect({ url, chain }: { url: string; chain: string }): Driver<BitcoinCall> {
  const { send } = createHttpDriver({ url, verify: async () => {} });
  const backend = createEsploraBackend(send);
  return {
    send: (call) => call(backend),
    async verify() {
      // A chain's id is the beginning of its first block's hash. Source: BIP-122, CAIP-4.
      const found = `bip122:${(await backend.genesis()).slice(0, 32)}`;
      if (found !== chain) throw new WrongChain(`An endpoint serves chain ${found}, not ${chain}.`);
    },
  };
}

/** Asks the best server, and the next ones when it fails. @throws RpcUnavailable */
export async function ask<T>(client: BitcoinClient, call: (backend: BitcoinBackend) => Promise<T>): Promise<T> {
  try {
    return (await client.request(call)) as T;
  } catch (error) {
    throw client.judge.asUnavailable(error);
  }
}
