import { type Client, createClient, custom } from 'viem';
import type { Logger } from '../../log.ts';
import { createEndpointPool, type EndpointPool } from '../endpoints/endpoint-pool.ts';
import type { EndpointWatch } from '../endpoints/endpoint-watch.ts';
import { rpcJudge } from './endpoint-failure.ts';
import { createRpcDriver, type RpcCall } from './rpc-driver.ts';

/** Reads through `request`; `endpoints` is for what one endpoint alone must not decide. */
export type EvmClient = Client & { readonly endpoints: EndpointPool<RpcCall> };

/**
 * A client for one chain, whatever becomes of its endpoints. Connections are kept alive by the runtime.
 * @param urls in the order in which they are asked while they do equally well; may hold credentials, which are never
 *   logged nor put into errors
 * @param chainId EIP-155; an endpoint of another chain is not used
 */
export function createEvmClient({
  urls,
  chainId,
  logger,
  watch,
}: {
  urls: readonly string[];
  chainId: number;
  logger?: Logger | undefined;
  watch?: EndpointWatch | undefined;
}): EvmClient {
  const endpoints = createEndpointPool({
    urls,
    connect: (url) => createRpcDriver({ url, chainId }),
    judge: rpcJudge,
    logger,
    watch,
  });
  const client = createClient({ transport: custom(endpoints, { retryCount: 0 }), cacheTime: 0 });
  return Object.assign(client as Client, { endpoints });
}
