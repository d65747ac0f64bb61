import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';

export interface FeeMarket {
  /** Base fee of the next block. */
  readonly baseFeeWei: bigint;
  /** What the node suggests for the block's producer. */
  readonly tipWei: bigint;
}

/** What gas costs now. @see EIP-1559 @throws RpcUnavailable */
export async function feeMarket(client: EvmClient): Promise<FeeMarket> {
  const [history, tip] = await Promise.all([
    ask(client.request({ method: 'eth_feeHistory', params: ['0x1', 'latest', []] })),
    suggestedTip(client),
  ]);
  const next = history.baseFeePerGas.at(-1);
  if (next === undefined) throw new RpcUnavailable('The chain has no base fee: it does not know EIP-1559.');
  const baseFeeWei = BigInt(next);
  if (tip.kind === 'tip') return { baseFeeWei, tipWei: tip.wei };
  return { baseFeeWei, tipWei: tip.wei > baseFeeWei ? tip.wei - baseFeeWei : 0n };
}

type Suggestion = { readonly kind: 'tip' | 'gas_price'; readonly wei: bigint };

/** Few nodes lack the method; their gas price is base fee and tip together. */
async function suggestedTip(client: EvmClient): Promise<Suggestion> {
  try {
    return { kind: 'tip', wei: BigInt(await ask(client.request({ method: 'eth_maxPriorityFeePerGas' }))) };
  } catch (error) {
    if (!(error instanceof RpcUnavailable && error.answer)) throw error;
    return { kind: 'gas_price', wei: BigInt(await ask(client.request({ method: 'eth_gasPrice' }))) };
  }
}
