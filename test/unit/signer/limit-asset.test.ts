import { describe, expect, it } from 'vitest';
import type { ExtraToken } from '../../../shared/chain/registry.ts';
import { decimalsOf, readLimitAmount, readLimitAsset, writeLimitAmount } from '../../../signer/cli/limit-asset.ts';

const chain = 'eip155:8453';
const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913';
const other = `0x${'Ab'.repeat(20)}`;
const read = (asset?: string, decimals?: string) => readLimitAsset({ asset, decimals });

describe('an asset of limits', () => {
  it('is named by its symbol, its address, or as native, in any case', () => {
    const known = { name: `${chain}/${usdc.toLowerCase()}`, decimals: 6 };
    for (const name of ['USDC', 'usdc', usdc, usdc.toLowerCase()]) expect(read(`${chain}/${name}`)).toEqual(known);
    for (const name of ['ETH', 'native'])
      expect(read(`${chain}/${name}`)).toEqual({ name: `${chain}/native`, decimals: 18 });
    expect(read(`eip155:84532/USDC`, '6')).toMatchObject({ decimals: 6 });
    expect(decimalsOf(known.name)).toBe(6);
  });

  it('may be one that is not known here, with its decimals', () => {
    expect(read(`${chain}/${other}`, '8')).toEqual({ name: `${chain}/${other.toLowerCase()}`, decimals: 8 });
    expect(read('eip155:4242/native', '18')).toEqual({ name: 'eip155:4242/native', decimals: 18 });
    expect(decimalsOf(`${chain}/${other.toLowerCase()}`)).toBeUndefined();
    expect(decimalsOf('eip155:4242/native')).toBeUndefined();
  });

  it('is one of Bitcoin or Tron, whose addresses differ by the case of their letters', () => {
    const usdt = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
    for (const token of ['USDT', 'usdt', usdt]) {
      expect(read(`tron:0x2b6653dc/${token}`)).toEqual({ name: `tron:0x2b6653dc/${usdt}`, decimals: 6 });
    }
    expect(decimalsOf(`tron:0x2b6653dc/${usdt}`)).toBe(6);
    expect(decimalsOf(`tron:0x2b6653dc/${usdt.toLowerCase()}`)).toBeUndefined();
    expect(read('tron:0x2b6653dc/TRX')).toEqual({ name: 'tron:0x2b6653dc/native', decimals: 6 });
    expect(read('tron:0x2b6653dc/TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', '8')).toMatchObject({ decimals: 8 });
    for (const token of ['BTC', 'native', 'NATIVE']) {
      const name = 'bip122:000000000019d6689c085ae165831e93/native';
      expect(read(`bip122:000000000019d6689c085ae165831e93/${token}`)).toEqual({ name, decimals: 8 });
    }
  });

  it('may be one that the installation adds, by its symbol', () => {
    const added = { chain, symbol: 'TEST', name: 'Test', asset: other, decimals: 3 } as unknown as ExtraToken;
    const known = { name: `${chain}/${other.toLowerCase()}`, decimals: 3 };
    expect(readLimitAsset({ asset: `${chain}/test`, decimals: undefined, extraTokens: [added] })).toEqual(known);
    expect(decimalsOf(known.name, [added])).toBe(3);
  });

  it.each([
    [undefined, undefined, /--asset must be CHAIN\/TOKEN/],
    ['USDC', undefined, /must be CHAIN\/TOKEN/],
    [`${chain}/`, undefined, /must be CHAIN\/TOKEN/],
    [`${chain}/USDC/1`, undefined, /must be CHAIN\/TOKEN/],
    ['solana:1/USDC', undefined, /must be CHAIN\/TOKEN/],
    [`${chain}/EUR`, undefined, /there is no EUR on that chain here; give the contract’s address/],
    [`${chain}/${other}`, undefined, /--decimals is missing/],
    [`${chain}/${other}`, '37', /--decimals must be a number from 0 to 36/],
    [`tron:0x2b6653dc/${usdc}`, '6', /give the contract’s address/],
    ['tron:0x2b6653dc/tr7nhqjekqxgtci8q8zy4pl8otszgjlj6t', '6', /give the contract’s address/],
    [`${chain}/TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t`, '6', /give the contract’s address/],
    ['bip122:000000000019d6689c085ae165831e93/USDT', '6', /it has bitcoin alone/],
    ['tron:2b6653dc/TRX', undefined, /must be CHAIN\/TOKEN/],
    [`${chain}/USDC`, '18', /--decimals 18 is wrong: USDC on eip155:8453 has 6/],
  ])('is refused as %s with decimals %s', (asset, decimals, message) => {
    expect(() => read(asset, decimals)).toThrow(message);
  });
});

describe('an amount of limits', () => {
  const amount = (text?: string) => readLimitAmount('--day', { text, decimals: 6 });

  it('is in whole units, exactly; any and nothing are no limit', () => {
    expect(amount('25.50')).toBe('25500000');
    expect(amount('0')).toBe('0');
    expect(amount('0.000001')).toBe('1');
    expect(amount('any')).toBeNull();
    expect(amount(undefined)).toBeNull();
  });

  it.each(['-1', '1e3', '1,5', '0x10', '', 'all', '9'.repeat(80)])('is refused as %j', (text) => {
    expect(() => amount(text)).toThrow(/^--day .* is no amount such as 25 or 0.5, and not any$/);
  });

  it('says when it has too many decimals, instead of rounding', () => {
    expect(() => amount('1.0000001')).toThrow('--day 1.0000001 has more than 6 decimals');
  });

  it('is written as it is read', () => {
    expect(writeLimitAmount('25500000', 6)).toBe('25.5');
    expect(writeLimitAmount('25500000', undefined)).toBe('25500000 minor units');
    expect(writeLimitAmount(null, 6)).toBe('any');
  });
});
