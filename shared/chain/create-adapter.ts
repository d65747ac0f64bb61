import type { AdapterOptions, ChainAdapter } from './adapter.ts';
import { createBitcoinAdapter } from './bitcoin/create-bitcoin-adapter.ts';
import { createEvmAdapter } from './evm/create-evm-adapter.ts';
import type { ChainFamily } from './registry.ts';
import { createTronAdapter } from './tron/create-tron-adapter.ts';

const constructors: Readonly<Record<ChainFamily, (o: AdapterOptions) => ChainAdapter>> = {
  evm: ({ maxFee, ...o }) => createEvmAdapter({ ...o, maxFeePerGasCeilingWei: maxFee }),
  bitcoin: ({ maxFee, ...o }) => createBitcoinAdapter({ ...o, ceilingSatPerKvb: maxFee }),
  tron: ({ maxFee, ...o }) => createTronAdapter({ ...o, maxFeeSun: maxFee }),
};

/** The chain behind the interface that all families share. */
export function createChainAdapter(o: AdapterOptions): ChainAdapter {
  return constructors[o.chain.family](o);
}
