import { NETWORK, TEST_NETWORK } from '@scure/btc-signer';

/** How a network writes its addresses. */
export interface BitcoinNetwork {
  readonly name: string;
  /** Beginning of its SegWit addresses. */
  readonly bech32: string;
  /** First bytes of its base58 addresses. */
  readonly pubKeyHash: number;
  readonly scriptHash: number;
  readonly wif: number;
  /** Number of its coin in the paths of wallets. Source: SLIP-44. */
  readonly coinType: number;
}

/** By CAIP-2 id. Sources: BIP-173 and Bitcoin Core's chain parameters; regtest differs from testnet by its prefix alone. */
const networks: Readonly<Record<string, BitcoinNetwork>> = {
  'bip122:000000000019d6689c085ae165831e93': { ...NETWORK, name: 'Bitcoin', coinType: 0 },
  'bip122:000000000933ea01ad0ee984209779ba': { ...TEST_NETWORK, name: 'Bitcoin Testnet', coinType: 1 },
  'bip122:0f9188f13cb7b2c71f2a335e3a4fc328': {
    ...TEST_NETWORK,
    bech32: 'bcrt',
    name: 'Bitcoin Regtest',
    coinType: 1,
  },
};

/** All of them: an address tells of which it is. */
export const bitcoinNetworks: readonly BitcoinNetwork[] = Object.values(networks);

/** @param chain CAIP-2 id @throws RangeError for a chain that is none of these */
export function networkOf(chain: string): BitcoinNetwork {
  const network = networks[chain];
  if (!network) throw new RangeError(`${chain} is not a Bitcoin chain: known are ${Object.keys(networks).join(', ')}.`);
  return network;
}
