import { numberToHex } from 'viem';

export interface RpcCall {
  readonly jsonrpc: '2.0';
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

export type RpcAnswer =
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } };

/** Methods that take a block, and at which place among their parameters. */
const blockParameter: Readonly<Record<string, number>> = {
  eth_getBlockByNumber: 0,
  eth_getBalance: 1,
  eth_getTransactionCount: 1,
  eth_getCode: 1,
  eth_call: 1,
  eth_estimateGas: 1,
  eth_feeHistory: 1,
  eth_getStorageAt: 2,
};

/** The call that asks about a block what `call` asks about the newest. */
export function asOfBlock(call: RpcCall, asOf: number): RpcCall {
  const place = blockParameter[call.method];
  if (place === undefined) return call;
  const params = [...(call.params ?? [])];
  if (!/^0x/.test(String(params[place] ?? 'latest'))) params[place] = numberToHex(asOf);
  return { ...call, params };
}

/** What a node whose newest block is `asOf` says in place of `answer`. */
export function hideNewer({ method, params = [] }: RpcCall, answer: RpcAnswer, asOf: number): RpcAnswer {
  if (method === 'eth_blockNumber') return { result: numberToHex(asOf) };
  const place = blockParameter[method];
  const block = place === undefined ? undefined : params[place];
  if (typeof block === 'string' && /^0x/.test(block) && Number(block) > asOf)
    return method === 'eth_getBlockByNumber'
      ? { result: null }
      : { error: { code: -32_000, message: 'header not found' } };
  if (!('result' in answer)) return answer;
  if (method === 'eth_getLogs')
    return { result: (answer.result as { blockNumber: string }[]).filter((log) => Number(log.blockNumber) <= asOf) };
  const { number, blockNumber } = (answer.result ?? {}) as { number?: string; blockNumber?: string };
  const stands = method === 'eth_getBlockByHash' ? number : blockNumber;
  const tellsOfOne = ['eth_getBlockByHash', 'eth_getTransactionReceipt', 'eth_getTransactionByHash'].includes(method);
  return tellsOfOne && stands && Number(stands) > asOf ? { result: null } : answer;
}
