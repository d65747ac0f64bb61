import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseFees } from '../../../shared/chain/evm/fees.ts';
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
