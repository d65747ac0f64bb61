import type { Address, Hex } from 'viem';
import { RpcUnavailable } from '../errors.ts';
import type { Asset } from '../registry.ts';
import { failureReason } from '../revert.ts';
import type { EvmClient } from './client.ts';
import { isExecutionFailure } from './node-errors.ts';
import { ask } from './rpc.ts';
import { transferData } from './transfer-data.ts';

/** A simulated call: what it returned, or why it would fail. */
export type Simulated<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

/** The call that a payment makes. */
export interface PaymentCall {
  readonly from: Address;
  readonly to: Address;
  readonly value: Hex;
  readonly data: Hex;
}

export function paymentCall({
  from,
  to,
  asset,
  amountMinor,
}: {
  from: string;
  to: string;
  asset: Asset;
  amountMinor: bigint;
}): PaymentCall {
  const sender = from as Address;
  return asset === 'native'
    ? { from: sender, to: to as Address, value: `0x${amountMinor.toString(16)}`, data: '0x' }
    : { from: sender, to: asset as Address, value: '0x0', data: transferData({ to, amountMinor }) };
}

/** Gas that the call takes when it is executed on the newest block. @throws RpcUnavailable */
export async function simulateGas(client: EvmClient, call: PaymentCall): Promise<Simulated<bigint>> {
  return simulated(client.request({ method: 'eth_estimateGas', params: [call] }), BigInt);
}

/** What the call returns when it is executed on a block, by default the newest. @throws RpcUnavailable */
export async function simulateCall(
  client: EvmClient,
  call: PaymentCall,
  { block = 'latest' }: { block?: Hex | 'latest' } = {},
): Promise<Simulated<Hex>> {
  return simulated(client.request({ method: 'eth_call', params: [call, block] }), (data) => data);
}

async function simulated<T>(request: Promise<Hex>, read: (result: Hex) => T): Promise<Simulated<T>> {
  try {
    return { ok: true, value: read(await ask(request)) };
  } catch (error) {
    if (error instanceof RpcUnavailable && error.answer && isExecutionFailure(error.answer))
      return { ok: false, reason: failureReason(error.answer) };
    throw error;
  }
}
