/** How a Bitcoin chain writes its addresses. Sources: SLIP-173; `chainparams.cpp` of Bitcoin Core. */
export interface BitcoinNetwork {
  /** Human-readable part of Bech32 addresses. */
  prefix: string;
  /** Version bytes of Base58Check addresses: of a public key's hash, and of a script's. */
  p2pkh: number;
  p2sh: number;
}

const test = { p2pkh: 0x6f, p2sh: 0xc4 };

/** By CAIP-2 id: the chains that a signer signs for. */
const bitcoinNetworks: Readonly<Record<string, BitcoinNetwork>> = {
  'bip122:000000000019d6689c085ae165831e93': { prefix: 'bc', p2pkh: 0x00, p2sh: 0x05 },
  'bip122:000000000933ea01ad0ee984209779ba': { prefix: 'tb', ...test },
  'bip122:0f9188f13cb7b2c71f2a335e3a4fc328': { prefix: 'bcrt', ...test },
};

/** Main net, and Nile. */
const tronChains: readonly string[] = ['tron:0x2b6653dc', 'tron:0xcd8690dc'];

/** @param chain CAIP-2 id @returns undefined: none that a signer signs for */
export function bitcoinNetworkOf(chain: string): BitcoinNetwork | undefined {
  return Object.hasOwn(bitcoinNetworks, chain) ? bitcoinNetworks[chain] : undefined;
}

/** @param chain CAIP-2 id */
export const isTronChain = (chain: string): boolean => tronChains.includes(chain);

/** Number of a chain's coin in the paths of wallets. Source: SLIP-44. @param chain CAIP-2 id that a signer signs for */
export function coinTypeOf(chain: string): number {
  const network = bitcoinNetworkOf(chain);
  if (network) return network.prefix === 'bc' ? 0 : 1;
  return isTronChain(chain) ? 195 : 60;
}
