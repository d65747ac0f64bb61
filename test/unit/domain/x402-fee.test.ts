import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAmount } from '../../../shared/domain/money.ts';
import { type FeeTier, feeOf, readFeeTiers } from '../../../shared/domain/x402-fee.ts';

const read = (text: string): readonly FeeTier[] => {
  const tiers = readFeeTiers(text);
  if (typeof tiers === 'string') throw new Error(tiers);
  return tiers;
};

describe('a table of fees', () => {
  it('is read in canonical form', () => {
    expect(read('0=1.50, 100.0=0.5,1000=0')).toEqual([
      { fromAmount: '0', rate: '1.5' },
      { fromAmount: '100', rate: '0.5' },
      { fromAmount: '1000', rate: '0' },
    ]);
  });

  it.each([
    ['', /not like/],
    ['1', /not like/],
    ['0=', /not like/],
    ['0=-1', /not like/],
    ['0=1=2', /not like/],
    ['0=1%', /not like/],
    ['1=1', /must begin with a tier for all amounts/],
    ['0=101', /more than 100 percent/],
    ['0=1,10=1,10=2', /not in ascending order/],
    ['0=1,10=1,9.99=2', /not in ascending order/],
    [`0=1.${'1'.repeat(37)}`, /too many decimals/],
    [Array.from({ length: 21 }, (_, index) => `${index}=1`).join(','), /more than 20/],
  ])('is not %j', (text, message) => expect(readFeeTiers(text)).toMatch(message));
});

describe('a fee', () => {
  const tiers = read('0=1,100=0.5,1000=0.25');

  it.each([
    [99_999_999n, '1', 999_999n],
    [100_000_000n, '0.5', 500_000n],
    [999_999_999n, '0.5', 4_999_999n],
    [1_000_000_000n, '0.25', 2_500_000n],
    [1n, '1', 0n],
    [99n, '1', 0n],
    [100n, '1', 1n],
  ])('of %i minor units of USDC is by tier %s: %i', (amountMinor, rate, feeMinor) => {
    expect(feeOf({ amountMinor, decimals: 6, tiers })).toEqual({ feeMinor, rate });
  });

  it('is nothing by the table that is there without configuration', () => {
    expect(feeOf({ amountMinor: 10n ** 70n, decimals: 18, tiers: read('0=0') })).toEqual({ feeMinor: 0n, rate: '0' });
  });

  it('is exact and rounded down, whatever amount, decimals and rate', () => {
    const amount = fc.bigInt({ min: 1n, max: (1n << 256n) - 1n });
    const percent = fc.bigInt({ min: 0n, max: 100_000_000n });
    fc.assert(
      fc.property(amount, fc.integer({ min: 0, max: 36 }), percent, (amountMinor, decimals, millionths) => {
        const { feeMinor } = feeOf({ amountMinor, decimals, tiers: read(`0=${formatAmount(millionths, 6)}`) });
        const exact = amountMinor * millionths;
        const whole = 100_000_000n;
        expect(feeMinor * whole <= exact && exact < (feeMinor + 1n) * whole).toBe(true);
        expect(feeMinor <= amountMinor).toBe(true);
      }),
    );
  });

  it('goes by the same tier for the same amount, whatever the decimals', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: 2_000n }), fc.integer({ min: 0, max: 36 }), (units, decimals) => {
        const { rate } = feeOf({ amountMinor: units * 10n ** BigInt(decimals), decimals, tiers });
        expect(rate).toBe(units < 100n ? '1' : units < 1_000n ? '0.5' : '0.25');
      }),
    );
  });
});
