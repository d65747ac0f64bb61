import { numberToHex, http as overHttp } from 'viem';
import type { Driver } from '../endpoints/driver.ts';
import { endpointTimeoutMs, WrongChain } from '../endpoints/endpoint.ts';
import { wasCutOff } from '../endpoints/plain-error.ts';
import { RpcUnavailable } from '../errors.ts';

/** Requests of one moment travel together. Public endpoints refuse batches of thirty and more. */
const maxBatchSize = 20;

export interface RpcCall {
  readonly method: string;
  readonly params?: unknown;
}

/**
 * JSON-RPC over HTTP.
 * @param url may hold credentials
 * @param chainId EIP-155
 */
export function createRpcDriver({ url, chainId }: { url: string; chainId: number }): Driver<RpcCall> {
  const transport = overHttp(url, {
    timeout: endpointTimeoutMs,
    // Repeats are the caller's: Temporal's, or the watcher's next round.
    retryCount: 0,
    batch: { batchSize: maxBatchSize, wait: 0 },
  })({});
  return { send, verify };

  /** A kept-alive connection may have been closed at the other end: that alone is no failure. */
  async function send({ method, params }: RpcCall): Promise<unknown> {
    const request = () => transport.request({ method, params } as never) as Promise<unknown>;
    const answer = await request().catch((error: unknown) => {
      if (wasCutOff(error)) return request();
      throw error;
    });
    if (answer === undefined) throw new RpcUnavailable('An endpoint answered without a result.');
    return answer;
  }

  async function verify(): Promise<void> {
    const found = await send({ method: 'eth_chainId' });
    if (found !== numberToHex(chainId))
      throw new WrongChain(`An endpoint serves chain ${String(Number(found))}, not ${chainId}.`);
  }
}
