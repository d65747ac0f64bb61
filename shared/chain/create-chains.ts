import type { ChainAdapter, Chains } from './adapter.ts';
import { createEvmAdapter } from './evm/create-evm-adapter.ts';
import type { Chain, ChainFamily, Registry } from './registry.ts';

/** How to reach one chain, and what it may cost. */
interface ChainOptions {
  readonly chain: Chain;
  readonly urls: readonly string[];
  readonly maxFeePerGasCeilingWei: bigint | undefined;
}

/** One row a family. */
const families: Readonly<Record<ChainFamily, (options: ChainOptions) => ChainAdapter>> = { evm: createEvmAdapter };

/**
 * An adapter for each chain of the registry.
 * @param rpc endpoints by CAIP-2 id
 * @param maxFeePerGasWei ceilings by CAIP-2 id, where they differ from the chain's default
 */
export function createChains({
  registry,
  rpc,
  maxFeePerGasWei,
}: {
  registry: Registry;
  rpc: Readonly<Record<string, readonly string[]>>;
  maxFeePerGasWei: Readonly<Record<string, bigint>>;
}): Chains {
  return new Map(
    registry.chains.map((chain) => {
      const urls = rpc[chain.id];
      if (!urls?.length) throw new Error(`Chain ${chain.id} has no RPC endpoint.`);
      return [
        chain.id,
        families[chain.family]({ chain, urls, maxFeePerGasCeilingWei: maxFeePerGasWei[chain.id] }),
      ] as const;
    }),
  );
}
