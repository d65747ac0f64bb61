import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseFees, raiseFees } from '../../../shared/chain/evm/fees.ts';
import { readReceipt } from '../../../shared/chain/evm/inclusions.ts';

const wei = fc.bigInt({ min: 0n, max: 10n ** 15n });

describe('fees', () => {
  it('leave room for rising base fees, pass the next block, and never pass the ceiling', () => {
    fc.assert(
      fc.property(wei, wei, wei, (baseFeeWei, tipWei, ceilingWei) => {
        const choose = () => chooseFees({ chain: 'eip155:1', baseFeeWei, tipWei, ceilingWei });
        if (baseFeeWei + tipWei > ceilingWei) {
          expect(choose).toThrow(`more than the ceiling of ${ceilingWei} wei`);
          return;
        }
        const fees = choose();
        expect(fees.maxFeePerGasWei).toBeLessThanOrEqual(ceilingWei);
        expect(fees.maxFeePerGasWei).toBeGreaterThanOrEqual(baseFeeWei + tipWei);
        expect(fees.maxFeePerGasWei).toBeLessThanOrEqual(2n * baseFeeWei + tipWei);
        expect(fees.maxPriorityFeePerGasWei).toBe(tipWei);
      }),
    );
  });

  it('that were paid are gas used at the price paid, with the L1 fee of OP-stack chains, to the last wei', () => {
    const receipt = {
      transactionHash: '0x01',
      blockHash: '0x02',
      blockNumber: '0x10',
      gasUsed: '0x5208',
      effectiveGasPrice: '0x3b9aca07',
      status: '0x1',
    } as unknown as Parameters<typeof readReceipt>[0];
    expect(readReceipt(receipt)).toEqual({
      hash: '0x01',
      blockHash: '0x02',
      blockNumber: 16,
      succeeded: true,
      feeMinor: 21_000n * 1_000_000_007n,
    });
    expect(readReceipt({ ...receipt, l1Fee: '0x7b' }).feeMinor).toBe(21_000n * 1_000_000_007n + 123n);
  });
});

describe('F16 the fees of a replacement', () => {
  const tenthMore = (fee: bigint) => (fee * 11n + 9n) / 10n + 1n;

  it('are a tenth more on both, rounded up, plus one wei, and as much as the market asks; else there is none', () => {
    fc.assert(
      fc.property(wei, wei, wei, wei, wei, (one, other, baseFeeWei, tipWei, ceilingWei) => {
        const [maxPriorityFeePerGasWei, maxFeePerGasWei] = one < other ? [one, other] : [other, one];
        const before = { maxFeePerGasWei, maxPriorityFeePerGasWei };
        const fees = raiseFees({ before, baseFeeWei, tipWei, ceilingWei });
        if (!fees) {
          expect(tenthMore(maxFeePerGasWei) > ceilingWei).toBe(true);
          return;
        }
        expect(fees.maxFeePerGasWei).toBeLessThanOrEqual(ceilingWei);
        expect(fees.maxPriorityFeePerGasWei).toBeLessThanOrEqual(fees.maxFeePerGasWei);
        expect(fees.maxFeePerGasWei).toBeGreaterThanOrEqual(tenthMore(maxFeePerGasWei));
        expect(fees.maxPriorityFeePerGasWei).toBeGreaterThanOrEqual(tenthMore(maxPriorityFeePerGasWei));
        const roomy = 2n * baseFeeWei + fees.maxPriorityFeePerGasWei;
        expect(fees.maxFeePerGasWei).toBeGreaterThanOrEqual(roomy < ceilingWei ? roomy : ceilingWei);
      }),
    );
  });

  it.each([
    ['10', '12'],
    ['1', '3'],
    ['1000000000', '1100000001'],
    ['1000000001', '1100000003'],
  ])('%s becomes %s at least', (before, after) => {
    const fee = BigInt(before);
    const fees = raiseFees({
      before: { maxFeePerGasWei: fee, maxPriorityFeePerGasWei: fee },
      baseFeeWei: 0n,
      tipWei: 0n,
      ceilingWei: 10n ** 12n,
    });
    expect(fees).toEqual({ maxFeePerGasWei: BigInt(after), maxPriorityFeePerGasWei: BigInt(after) });
  });
});
