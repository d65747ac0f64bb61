import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bandwidthBytes, bandwidthFee, energyFeeLimit } from '../../../shared/chain/tron/fees.ts';
import { readSigned } from '../../../shared/chain/tron/read-signed.ts';
import { publishedTransactions } from '../../support/tron-transactions.ts';

const prices = { sunPerByte: 1_000n, sunPerEnergy: 100n, newAccountSun: 1_100_000n };
const chain = 'tron:0x2b6653dc';

/** The message `Transaction` around raw data and a signature. */
function messageOf({ rawData, signature }: { rawData: string; signature: string }): string {
  const length = rawData.length / 2;
  const size = Buffer.from(length < 128 ? [length] : [(length & 0x7f) | 0x80, length >> 7]).toString('hex');
  return `0a${size}${rawData}1241${signature}`;
}

describe('what a payment on Tron costs', () => {
  it.each(publishedTransactions.filter(({ netUsage }) => netUsage !== null))(
    'counts the bytes that the mainnet billed for $id',
    (published) => {
      expect(bandwidthBytes(readSigned(messageOf(published)).transaction)).toBe(published.netUsage);
    },
  );

  it('may burn for every byte, or for the account that it makes', () => {
    expect(bandwidthFee({ bytes: 345, isNewAccount: false, prices })).toBe(345_000n);
    expect(bandwidthFee({ bytes: 345, isNewAccount: true, prices })).toBe(1_100_000n);
  });

  it('lets a call burn what it took, some more, and never more than the ceiling with all the rest', () => {
    const amounts = fc.bigInt({ min: 0n, max: 10n ** 9n });
    fc.assert(
      fc.property(amounts, amounts, amounts, (energy, restSun, ceilingSun) => {
        const terms = { chain, energy, sunPerEnergy: 100n, restSun, ceilingSun };
        const needed = energy * 100n;
        if (needed + restSun > ceilingSun) {
          expect(() => energyFeeLimit(terms)).toThrow('more than the ceiling');
          return;
        }
        const limit = energyFeeLimit(terms);
        expect(limit).toBeGreaterThanOrEqual(needed);
        expect(limit + restSun).toBeLessThanOrEqual(ceilingSun);
        expect(limit).toBeLessThanOrEqual((needed * 5n + 3n) / 4n);
      }),
    );
  });
});
