import { EVM_NETWORK_CHAIN_ID_MAP } from '@x402/evm/v1';

/** Version 1 calls chains by names of its own. */
const namesOfVersion1: ReadonlyMap<string, number> = new Map(Object.entries(EVM_NETWORK_CHAIN_ID_MAP));

/** A network as CAIP-2, whichever way it is written; as written where the name is not known. */
export function toCaip2(network: string): string {
  const chainId = namesOfVersion1.get(network);
  return chainId === undefined ? network : `eip155:${chainId}`;
}
