import type { Logger } from '../../log.ts';
import type { Driver } from '../endpoints/driver.ts';
import { WrongChain } from '../endpoints/endpoint.ts';
import { createEndpointPool, type EndpointPool } from '../endpoints/endpoint-pool.ts';
import type { EndpointWatch } from '../endpoints/endpoint-watch.ts';
import { createHttpDriver, type HttpCall } from '../endpoints/http.ts';
import { HttpFailure, httpJudge } from '../endpoints/http-failure.ts';
import { withoutAddresses } from '../endpoints/plain-error.ts';
import { object, readBlock, readPlace } from './answers.ts';

/** The interface of everything, and the one that knows only what is solidified: two thirds of the producers built on it. */
type Api = 'wallet' | 'walletsolidity';

/** `inclusion`: a transaction's receipt and then its block, both of one endpoint; `null` where it is in none. */
export type TronCall = HttpCall | { readonly inclusion: string; readonly api: Api };

export type TronEndpoints = EndpointPool<TronCall>;

/** A question to the HTTP API. Addresses in it and in its answer are base58. @see https://developers.tron.network/reference */
export function tronCall(api: Api, method: string, body: Readonly<Record<string, unknown>> = {}): HttpCall {
  return { path: `/${api}/${method}`, body: { ...body, visible: true } };
}

export const blockAt = (api: Api, num: number) => tronCall(api, 'getblockbynum', { num });

/**
 * The endpoints of a Tron chain: HTTP APIs of full nodes that serve `/wallet` and `/walletsolidity` at one address.
 * @param urls a key of TronGrid may stand before the `@`; it is never logged nor put into errors
 * @param chain CAIP-2 id; an endpoint of another chain is not used
 */
export function createTronEndpoints({
  urls,
  chain,
  logger,
  watch,
}: {
  urls: readonly string[];
  chain: string;
  logger?: Logger | undefined;
  watch?: EndpointWatch | undefined;
}): TronEndpoints {
  return createEndpointPool({
    urls,
    connect: (url) => createTronDriver({ url, chain }),
    judge: httpJudge,
    logger,
    watch,
  });
}

function createTronDriver({ url, chain }: { url: string; chain: string }): Driver<TronCall> {
  const driver = createHttpDriver({
    url,
    authorize: ({ username, password }) => ({ 'TRON-PRO-API-KEY': username || password }),
    verify: async (send) => {
      const genesis = readBlock(usable(await send(blockAt('wallet', 0))));
      if (genesis?.number !== 0) throw new HttpFailure({ text: 'The endpoint has no first block.' });
      // The reference of the chain's id is the end of the first block's. Source: TIP-474.
      const found = `tron:0x${genesis.hash.slice(-8)}`;
      if (found !== chain) throw new WrongChain(`An endpoint serves chain ${found}, not ${chain}.`);
    },
  });
  const ask = async (call: HttpCall) => usable(await driver.send(call));
  return {
    verify: driver.verify,
    async send(call) {
      if (!('inclusion' in call)) return ask(call);
      // In hex, for addresses of events are not written in base58 in one way: `SolidityNode` leaves out the prefix.
      const asked = { value: call.inclusion, visible: false };
      const info = await ask({ path: `/${call.api}/gettransactioninfobyid`, body: asked });
      const place = readPlace(info);
      if (!place) return null;
      return { info, block: await ask(blockAt(call.api, place.number)) };
    },
  };
}

/** What is not there is `{}`. An error has status 200; of those that can come, none is about what was asked. */
function usable(answer: unknown): unknown {
  // Not that there is no such transaction: whoever lacks a part of the interface proves nothing.
  if (answer === null)
    throw new HttpFailure({ status: 404, text: 'The endpoint does not serve this part of the API.' });
  if (typeof answer !== 'object') throw new HttpFailure({ text: 'The answer is no JSON object.' });
  const { Error: error } = object(answer);
  if (typeof error !== 'string') return Object.keys(answer).length === 0 ? null : answer;
  // Source: java-tron, `RateLimiterServlet`.
  const status = /lack of computing resources/i.test(error) ? 429 : 500;
  throw new HttpFailure({ status, text: withoutAddresses(error) });
}
