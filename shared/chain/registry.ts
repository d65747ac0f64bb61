export type ChainFamily = 'evm' | 'bitcoin' | 'tron';

/** What a token is on its chain: `native` for its coin, or the address of a contract in its one written form. */
export type Asset = string;

export interface Token {
  /** In capitals. */
  readonly symbol: string;
  readonly decimals: number;
  readonly asset: Asset;
  /** EIP-712 domain of a contract that transfers by signed authorisation (EIP-3009); others cannot be used with x402. */
  readonly domain?: TokenDomain;
}

export interface TokenDomain {
  readonly name: string;
  readonly version: string;
}

export interface Chain {
  /** CAIP-2, e.g. `eip155:8453`. */
  readonly id: string;
  readonly family: ChainFamily;
  readonly name: string;
  /** `local` chains exist in sandbox installations only. */
  readonly network: 'mainnet' | 'testnet' | 'local';
  /** Blocks, the including one counted, after which a payment is final. */
  readonly confirmations: number;
  /** The first one is the native coin. */
  readonly tokens: readonly Token[];
}

const token = (symbol: string, decimals: number, asset: string, domain?: TokenDomain): Token => ({
  symbol,
  decimals,
  asset,
  ...(domain && { domain }),
});

/** Of Circle's contracts: `name()` and `version()`, which differ between chains. */
const usdCoin: TokenDomain = { name: 'USD Coin', version: '2' };
const usdc: TokenDomain = { name: 'USDC', version: '2' };

/** Sources: each chain's native coin by its own documentation; contracts by Circle's and Tether's published lists, in their one written form. */
const known: readonly Chain[] = [
  {
    id: 'eip155:1',
    family: 'evm',
    name: 'Ethereum',
    network: 'mainnet',
    confirmations: 12,
    tokens: [
      token('ETH', 18, 'native'),
      token('USDC', 6, '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', usdCoin),
      token('USDT', 6, '0xdAC17F958D2ee523a2206206994597C13D831ec7'),
      token('DAI', 18, '0x6B175474E89094C44Da98b954EedeAC495271d0F'),
    ],
  },
  {
    id: 'eip155:8453',
    family: 'evm',
    name: 'Base',
    network: 'mainnet',
    confirmations: 10,
    tokens: [
      token('ETH', 18, 'native'),
      token('USDC', 6, '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', usdCoin),
      token('DAI', 18, '0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb'),
    ],
  },
  {
    id: 'eip155:84532',
    family: 'evm',
    name: 'Base Sepolia',
    network: 'testnet',
    confirmations: 10,
    tokens: [token('ETH', 18, 'native'), token('USDC', 6, '0x036CbD53842c5426634e7929541eC2318f3dCF7e', usdc)],
  },
  {
    id: 'eip155:56',
    family: 'evm',
    name: 'BNB Smart Chain',
    network: 'mainnet',
    confirmations: 15,
    tokens: [
      token('BNB', 18, 'native'),
      token('USDC', 18, '0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d'),
      token('USDT', 18, '0x55d398326f99059fF775485246999027B3197955'),
    ],
  },
  {
    id: 'eip155:137',
    family: 'evm',
    name: 'Polygon',
    network: 'mainnet',
    confirmations: 64,
    tokens: [
      token('POL', 18, 'native'),
      token('USDC', 6, '0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359', usdCoin),
      token('USDT', 6, '0xc2132D05D31c914a87C6611C10748AEb04B58e8F'),
      token('DAI', 18, '0x8f3Cf7ad23Cd3CaDbD9735AFf958023239c6A063'),
    ],
  },
  {
    id: 'tron:0x2b6653dc',
    family: 'tron',
    name: 'Tron',
    network: 'mainnet',
    confirmations: 20,
    tokens: [token('TRX', 6, 'native'), token('USDT', 6, 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t')],
  },
  {
    id: 'tron:0xcd8690dc',
    family: 'tron',
    name: 'Tron Nile',
    network: 'testnet',
    confirmations: 20,
    tokens: [token('TRX', 6, 'native'), token('USDT', 6, 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf')],
  },
  {
    id: 'bip122:000000000019d6689c085ae165831e93',
    family: 'bitcoin',
    name: 'Bitcoin',
    network: 'mainnet',
    confirmations: 3,
    tokens: [token('BTC', 8, 'native')],
  },
  {
    id: 'bip122:000000000933ea01ad0ee984209779ba',
    family: 'bitcoin',
    name: 'Bitcoin Testnet',
    network: 'testnet',
    confirmations: 3,
    tokens: [token('BTC', 8, 'native')],
  },
  {
    id: 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328',
    family: 'bitcoin',
    name: 'Bitcoin Regtest',
    network: 'local',
    confirmations: 1,
    tokens: [token('BTC', 8, 'native')],
  },
  {
    id: 'eip155:31337',
    family: 'evm',
    name: 'Local',
    network: 'local',
    confirmations: 1,
    tokens: [token('ETH', 18, 'native')],
  },
];

export interface ExtraToken extends Token {
  readonly chain: string;
}

export interface RegistryOptions {
  readonly environment: 'sandbox' | 'production';
  /** CAIP-2 ids of the chains that this installation serves. */
  readonly enabled: readonly string[];
  /** Tokens beyond the built-in ones, e.g. the test USDC of a local chain. */
  readonly extraTokens?: readonly ExtraToken[];
  /** Depth by chain where it differs from the default. */
  readonly confirmations?: Readonly<Record<string, number>>;
}

/** The chains and tokens that this installation serves. */
export interface Registry {
  readonly chains: readonly Chain[];
  /** The chain, if it is served here. */
  chain(id: string): Chain | undefined;
  /** A token by its symbol in any case. */
  token(chainId: string, symbol: string): Token | undefined;
  nativeToken(chainId: string): Token;
}

/** A sentence for each chain that is unknown, or that the environment refuses: mainnets in sandbox, others in production. */
export function refusedChains({ environment, enabled }: Pick<RegistryOptions, 'environment' | 'enabled'>): string[] {
  return enabled.flatMap((id) => {
    const chain = known.find((each) => each.id === id);
    if (!chain) return [`Chain ${id} is not known. Known are ${known.map((each) => each.id).join(', ')}.`];
    if ((chain.network === 'mainnet') === (environment === 'production')) return [];
    return [`Chain ${id} (${chain.name}, ${chain.network}) cannot be served in ${environment}.`];
  });
}

/**
 * Builds the registry.
 * @throws Error naming the chain that is unknown or that the environment refuses (mainnets in sandbox, others in production)
 */
export function createRegistry({
  environment,
  enabled,
  extraTokens = [],
  confirmations = {},
}: RegistryOptions): Registry {
  const refused = refusedChains({ environment, enabled });
  if (refused.length > 0) throw new Error(refused.join(' '));
  const chains = enabled.map((id): Chain => {
    const chain = known.find((each) => each.id === id)!;
    const added = extraTokens.filter((each) => each.chain === id);
    const kept = chain.tokens.filter((each) => !added.some((extra) => extra.symbol === each.symbol));
    return { ...chain, confirmations: confirmations[id] ?? chain.confirmations, tokens: [...kept, ...added] };
  });
  const byId = new Map(chains.map((chain) => [chain.id, chain]));
  return {
    chains,
    chain: (id) => byId.get(id),
    token: (chainId, symbol) => byId.get(chainId)?.tokens.find((each) => each.symbol === symbol.toUpperCase()),
    nativeToken(chainId) {
      const native = byId.get(chainId)?.tokens[0];
      if (!native) throw new Error(`Chain ${chainId} is not served here.`);
      return native;
    },
  };
}
