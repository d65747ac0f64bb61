import { describe, expect, it } from 'vitest';
import { createRegistry } from '../../../shared/chain/registry.ts';

const production = (enabled: string[]) => createRegistry({ environment: 'production', enabled });

describe('the registry', () => {
  it('F32 knows decimals by chain and contract: USDC has 6 on Ethereum and 18 on BNB', () => {
    const registry = production(['eip155:1', 'eip155:56']);
    expect(registry.token('eip155:1', 'USDC')?.decimals).toBe(6);
    expect(registry.token('eip155:56', 'USDC')?.decimals).toBe(18);
    expect(registry.token('eip155:56', 'USDT')?.decimals).toBe(18);
  });

  it('takes symbols in any case, and knows only what is served here', () => {
    const registry = production(['eip155:8453']);
    expect(registry.token('eip155:8453', 'usdc')?.symbol).toBe('USDC');
    expect(registry.token('eip155:8453', 'ETH')?.asset).toBe('native');
    expect(registry.token('eip155:1', 'USDC')).toBeUndefined();
    expect(registry.chain('eip155:1')).toBeUndefined();
    expect(() => registry.nativeToken('eip155:1')).toThrow('eip155:1 is not served here');
  });

  it('refuses mainnets in sandbox, test and local chains in production, and what it does not know', () => {
    const sandbox = (id: string) => () => createRegistry({ environment: 'sandbox', enabled: [id] });
    expect(sandbox('eip155:1')).toThrow(/Ethereum, mainnet.*cannot be served in sandbox/);
    expect(() => production(['eip155:84532'])).toThrow(/cannot be served in production/);
    expect(() => production(['eip155:31337'])).toThrow(/cannot be served in production/);
    expect(sandbox('eip155:5')).toThrow(/eip155:5 is not known. Known are eip155:1,/);
  });

  it('gives every chain of the decisions its depth, unless configured otherwise', () => {
    const all = ['eip155:1', 'eip155:8453', 'eip155:56', 'eip155:137'];
    const depths = (confirmations?: Record<string, number>) =>
      createRegistry({ environment: 'production', enabled: all, ...(confirmations && { confirmations }) }).chains.map(
        (chain) => chain.confirmations,
      );
    expect(depths()).toEqual([12, 10, 15, 64]);
    expect(depths({ 'eip155:1': 3 })).toEqual([3, 10, 15, 64]);
  });

  it('lets configuration add tokens, and replace one of the same symbol', () => {
    const asset = '0x7EC91C24b113A80Cd70e4877245434E4f065F96F' as const;
    const extra = { chain: 'eip155:84532', symbol: 'USDC', decimals: 6, asset };
    const registry = createRegistry({ environment: 'sandbox', enabled: ['eip155:84532'], extraTokens: [extra] });
    expect(registry.token('eip155:84532', 'USDC')?.asset).toBe(asset);
    expect(registry.chain('eip155:84532')?.tokens.filter(({ symbol }) => symbol === 'USDC')).toHaveLength(1);
  });
});
