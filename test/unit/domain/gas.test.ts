import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FormerGas, judgeGas } from '../../../shared/domain/gas.ts';

const lowTransfers = 5;
const judge = (balanceMinor: bigint, { transferMinor = 100n, holdsTokens = true, former }: Partial<Given> = {}) =>
  judgeGas({ balanceMinor, transferMinor, holdsTokens }, { lowTransfers, former });
interface Given {
  transferMinor: bigint;
  holdsTokens: boolean;
  former: FormerGas | undefined;
}

describe('a wallet', () => {
  it.each([
    [0n, 0, true],
    [99n, 0, true],
    [499n, 4, true],
    [500n, 5, false],
    [10n ** 40n, 1_000_000, false],
  ])('with %s coins, of which a transfer takes 100, pays for %s transfers, and is low: %s', (balance, left, isLow) => {
    expect(judge(balance)).toEqual({ transfersLeft: left, isLow });
  });

  it('without tokens has nothing to pay fees for', () => {
    expect(judge(0n, { holdsTokens: false })).toEqual({ transfersLeft: 0, isLow: false });
    expect(judge(0n, { holdsTokens: false, former: { balanceMinor: 0n, isLow: true } }).isLow).toBe(false);
  });

  it('is low no more once money has come and is enough', () => {
    const former = { balanceMinor: 400n, isLow: true };
    expect(judge(500n, { former }).isLow).toBe(false);
    expect(judge(499n, { former }).isLow).toBe(true);
  });

  it('is low still where only fees have fallen a little, and not where they have fallen by much', () => {
    const former = { balanceMinor: 400n, isLow: true };
    expect(judge(400n, { former, transferMinor: 50n }).isLow).toBe(true);
    expect(judge(400n, { former, transferMinor: 40n }).isLow).toBe(false);
  });

  it('whose balance stays becomes low once, while fees go up and down by less than half', () => {
    const readings = fc.array(fc.bigInt({ min: 100n, max: 199n }), { minLength: 2, maxLength: 50 });
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2_000n }), readings, (balanceMinor, fees) => {
        let former: FormerGas | undefined;
        let falls = 0;
        for (const transferMinor of fees) {
          const { isLow } = judge(balanceMinor, { transferMinor, former });
          if (isLow && !former?.isLow) falls += 1;
          former = { balanceMinor, isLow };
        }
        expect(falls).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('that is not low pays for as many transfers as are wished; one that is holds tokens and not twice as many', () => {
    const given = fc.record({
      balanceMinor: fc.bigInt({ min: 0n, max: 10n ** 24n }),
      transferMinor: fc.bigInt({ min: 1n, max: 10n ** 20n }),
      holdsTokens: fc.boolean(),
    });
    const formers = fc.option(
      fc.record({ balanceMinor: fc.bigInt({ min: 0n, max: 10n ** 24n }), isLow: fc.boolean() }),
      { nil: undefined },
    );
    fc.assert(
      fc.property(given, formers, fc.integer({ min: 1, max: 1_000 }), (reading, former, wished) => {
        const { isLow, transfersLeft } = judgeGas(reading, { lowTransfers: wished, former });
        const { balanceMinor, transferMinor, holdsTokens } = reading;
        expect(BigInt(transfersLeft) * transferMinor).toBeLessThanOrEqual(balanceMinor);
        if (isLow) expect(holdsTokens && balanceMinor < BigInt(2 * wished) * transferMinor).toBe(true);
        else expect(!holdsTokens || balanceMinor >= BigInt(wished) * transferMinor).toBe(true);
      }),
    );
  });
});
