import type { Logger } from '../log.ts';
import type { ChainAdapter } from './adapter.ts';
import { createBitcoinAdapter } from './bitcoin/create-bitcoin-adapter.ts';
import { createEvmAdapter } from './evm/create-evm-adapter.ts';
import type { Chain, ChainFamily } from './registry.ts';
import { createTronAdapter } from './tron/create-tron-adapter.ts';

export interface AdapterOptions {
  readonly chain: Chain;
  /** Endpoints in the order in which they are asked while they do equally well; may hold credentials. */
  readonly urls: readonly string[];
  /** The most that is paid for a unit of the chain's space, in the family's own unit; default: the chain's own. */
  readonly maxFee?: bigint | undefined;
  /** Default: the chain's own. */
  readonly speedUpAfterBlocks?: number | undefined;
  readonly logger?: Logger | undefined;
}

const constructors: Readonly<Record<ChainFamily, (o: AdapterOptions) => ChainAdapter>> = {
  evm: ({ maxFee, ...o }) => createEvmAdapter({ ...o, maxFeePerGasCeilingWei: maxFee }),
  bitcoin: ({ maxFee, ...o }) => createBitcoinAdapter({ ...o, ceilingSatPerKvb: maxFee }),
  tron: ({ maxFee, ...o }) => createTronAdapter({ ...o, maxFeeSun: maxFee }),
};

/** The chain behind the interface that all families share. */
export function createChainAdapter(o: AdapterOptions): ChainAdapter {
  return constructors[o.chain.family](o);
}
