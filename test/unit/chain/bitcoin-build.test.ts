import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseCoins, maxInputs } from '../../../shared/chain/bitcoin/choose-coins.ts';
import { bitcoinFamily } from '../../../shared/chain/bitcoin/family.ts';
import type { BitcoinCoin, BitcoinPrepared, BitcoinReplacementTerms } from '../../../shared/chain/bitcoin/prepared.ts';
import { quoteTransfer } from '../../../shared/chain/bitcoin/quote-transfer.ts';
import { dustLimit, feeAt, inputVirtualSize, virtualSize } from '../../../shared/chain/bitcoin/size.ts';
import type { Places } from '../../../shared/chain/family.ts';
import type { BitcoinTransaction, PaymentIntent, TransactionPayload } from '../../../shared/domain/receipt.ts';

const chain = 'bip122:000000000019d6689c085ae165831e93';
const from = 'bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu';
const payees = [
  '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2',
  '3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy',
  'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4',
  'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0',
];
const to = payees[2]!;

const txid = (index: number) => index.toString(16).padStart(64, '0');
const coinsOf = (...values: (number | bigint)[]): BitcoinCoin[] =>
  values.map((valueSat, index) => ({ txid: txid(index), vout: index % 3, valueSat: valueSat.toString() }));

const rates = fc
  .tuple(fc.bigInt(1000n, 300_000n), fc.bigInt(1n, 20n))
  .map(([satPerKvb, factor]) => ({ satPerKvb: `${satPerKvb}`, ceilingSatPerKvb: `${satPerKvb * factor}` }));
const values = fc.oneof(fc.bigInt(1n, 2000n), fc.bigInt(1000n, 1_000_000n), fc.bigInt(1_000_000n, 10_000_000_000n));
const wallets = fc.array(values, { maxLength: 70 }).map((each) => coinsOf(...each));
const payments = fc.record({
  chain: fc.constant(chain),
  from: fc.constant(from),
  to: fc.constantFrom(...payees),
  amountSat: fc.oneof(fc.bigInt(546n, 5000n), fc.bigInt(5000n, 2_000_000n), fc.bigInt(546n, 10_000_000_000n)),
});

const sum = (parts: readonly { valueSat: string }[]) =>
  parts.reduce((total, each) => total + BigInt(each.valueSat), 0n);
const size = ({ inputs, outputs }: Pick<BitcoinTransaction, 'inputs' | 'outputs'>) =>
  virtualSize({ inputs: inputs.length, outputs: outputs.map(({ address }) => address), chain });
const fee = ({ inputs, outputs }: BitcoinTransaction) => sum(inputs) - sum(outputs);
const transactionOf = (payload: TransactionPayload) => (payload as { transaction: BitcoinTransaction }).transaction;

/** Of the wallet's coins, what the database says is free. */
const free = (taken: readonly string[] = []): Places => ({
  nextNonce: () => Promise.reject(new Error('A coin has no nonce.')),
  freeCoins: async (coins) => coins.filter((coin) => !taken.includes(coin.txid)),
});

function build(p: {
  payment: { to: string; amountSat: bigint };
  coins: BitcoinCoin[];
  rates: { satPerKvb: string; ceilingSatPerKvb: string };
  places?: Places;
}) {
  const intent: PaymentIntent = {
    chain,
    asset: 'native',
    to: p.payment.to,
    amount_minor: p.payment.amountSat.toString(),
    max_fee_minor: '0',
  };
  const prepared = { outcome: 'ready', coins: p.coins, ...p.rates } as unknown as BitcoinPrepared;
  return bitcoinFamily.build({ intent, from, prepared, places: p.places ?? free() });
}

describe('the coins of a Bitcoin payment', () => {
  it('pay the payee, a fee that is enough and not too much, and the rest comes back', async () => {
    let built = 0;
    await fc.assert(
      fc.asyncProperty(payments, wallets, rates, async (payment, coins, terms) => {
        const result = await build({ payment, coins, rates: terms });
        if (result.outcome !== 'built') return;
        built++;
        const transaction = transactionOf(result.payload);
        const { inputs, outputs } = transaction;
        expect(outputs[0]).toEqual({ address: payment.to, valueSat: payment.amountSat.toString() });
        expect(outputs.slice(1).every(({ address }) => address === from)).toBe(true);
        for (const { address, valueSat } of outputs)
          expect(BigInt(valueSat)).toBeGreaterThanOrEqual(dustLimit(address, chain));
        expect(inputs.length).toBeLessThanOrEqual(maxInputs);
        expect(new Set(inputs.map((each) => `${each.txid}:${each.vout}`)).size).toBe(inputs.length);
        for (const input of inputs) expect(coins).toContainEqual(input);
        expect(result.coins).toEqual(inputs.map(({ txid: id, vout }) => ({ txid: id, vout })));
        const paid = fee(transaction);
        expect(paid).toBe(bitcoinFamily.maxFeeOf(result.payload));
        expect(paid * 1000n).toBeGreaterThanOrEqual(BigInt(terms.satPerKvb) * size(transaction));
        // Exactly that with change; and without, less than change would have cost and left as dust.
        const withChange = feeAt(
          BigInt(terms.satPerKvb),
          size({ inputs, outputs: [outputs[0]!, { address: from, valueSat: '0' }] }),
        );
        if (outputs.length === 2) expect(paid).toBe(withChange);
        else expect(paid).toBeLessThan(withChange + dustLimit(from, chain));
      }),
      { numRuns: 500 },
    );
    expect(built).toBeGreaterThan(100);
  });

  it('are found whenever the largest ones suffice, and cost what was quoted', async () => {
    await fc.assert(
      fc.asyncProperty(payments, wallets, rates, async (payment, coins, terms) => {
        const costSat = feeAt(BigInt(terms.satPerKvb), inputVirtualSize);
        const worthy = coins.filter(({ valueSat }) => BigInt(valueSat) > costSat);
        const largest = worthy.toSorted((a, b) => Number(BigInt(b.valueSat) - BigInt(a.valueSat)));
        const payable = largest.slice(0, maxInputs).some((_, index) => {
          const inputs = largest.slice(0, index + 1);
          const outputs = [{ address: payment.to, valueSat: '' }];
          return sum(inputs) >= payment.amountSat + feeAt(BigInt(terms.satPerKvb), size({ inputs, outputs }));
        });
        const result = await build({ payment, coins, rates: terms });
        expect(result.outcome).toBe(payable ? 'built' : 'wait');
        const quote = quoteTransfer({ payment, coins, rates: terms, balanceSat: sum(coins), underWaySat: 0n });
        expect(quote.outcome === 'payable').toBe(payable);
        if (result.outcome === 'built' && quote.outcome === 'payable') {
          expect(quote.feeSat).toBe(fee(transactionOf(result.payload)));
        }
      }),
      { numRuns: 300 },
    );
  });

  it('are never those of another payment, and the same whatever the order in which they are told', async () => {
    await fc.assert(
      fc.asyncProperty(payments, wallets, rates, fc.array(fc.nat(69)), async (payment, coins, terms, others) => {
        const taken = others.map(txid);
        const result = await build({ payment, coins, rates: terms, places: free(taken) });
        const left = coins.filter((coin) => !taken.includes(coin.txid)).toReversed();
        // The same coin twice, as a faulty backend might tell it.
        expect(await build({ payment, coins: [...left, ...left], rates: terms })).toEqual(result);
        if (result.outcome === 'built') for (const coin of result.coins) expect(taken).not.toContain(coin.txid);
      }),
      { numRuns: 200 },
    );
  });

  it('are the same of equal ones too', () => {
    const payment = { chain, from, to, amountSat: 1000n };
    const terms = { satPerKvb: '1000', ceilingSatPerKvb: '1000' };
    const equal = coinsOf(5000, 5000, 5000);
    const chosen = chooseCoins({ payment, coins: equal, rates: terms });
    expect(chooseCoins({ payment, coins: equal.toReversed(), rates: terms })).toEqual(chosen);
  });

  const cheap = { satPerKvb: '1000', ceilingSatPerKvb: '100000' };
  const choose = (amountSat: bigint, coins: BitcoinCoin[], terms = cheap) =>
    chooseCoins({ payment: { chain, from, to, amountSat }, coins, rates: terms })?.coins.map(
      ({ valueSat }) => valueSat,
    );

  it('are the smallest one that does it', () => {
    expect(choose(50_000n, coinsOf(1_000_000, 60_000, 200_000))).toEqual(['60000']);
    expect(choose(150_000n, coinsOf(100_000, 110_000, 60_000, 90_000))).toEqual(['110000', '60000']);
  });

  it('are such that the change can pay a higher fee later, where the wallet has such', () => {
    expect(choose(50_000n, coinsOf(1_000_000, 50_500))).toEqual(['1000000']);
    expect(choose(50_000n, coinsOf(50_500))).toEqual(['50500']);
    expect(choose(50_000n, coinsOf(50_500, 2_000))).toEqual(['50500', '2000']);
    // No room is wanted above the ceiling.
    expect(choose(50_000n, coinsOf(1_000_000, 50_500), { ...cheap, ceilingSatPerKvb: '1000' })).toEqual(['50500']);
    // Ten coins more would be too dear a price for it.
    expect(choose(50_000n, coinsOf(50_200, ...Array<number>(10).fill(140)))).toEqual(['50200']);
  });

  it('are none that cost more than they bring', () => {
    expect(choose(50_000n, coinsOf(49_000, 40_000, 60), { satPerKvb: '1000', ceilingSatPerKvb: '1000' })).toEqual([
      '49000',
      '40000',
    ]);
    expect(choose(1_000n, coinsOf(...Array<number>(40).fill(69)))).toBeUndefined();
  });

  it('are waited for while payments under way have them', async () => {
    const coins = coinsOf(100_000, 100_000);
    const payment = { to, amountSat: 150_000n };
    expect(await build({ payment, coins, rates: cheap, places: free([txid(0)]) })).toEqual({ outcome: 'wait' });
  });

  it('stay where they are when the payment is one that no node takes', async () => {
    const dust = { to: payees[0]!, amountSat: 545n };
    await expect(build({ payment: dust, coins: coinsOf(100_000), rates: cheap })).rejects.toThrow(
      'This payment cannot be built: 0.00000545 BTC are dust: nodes pass on nothing below 0.00000546 BTC for an address of this kind.',
    );
    await expect(
      build({ payment: { to: from, amountSat: 1000n }, coins: coinsOf(100_000), rates: cheap }),
    ).rejects.toThrow('the wallet would pay itself, which moves nothing and costs a fee');
  });
});

describe('a quote for a Bitcoin payment', () => {
  const terms = { satPerKvb: '1000', ceilingSatPerKvb: '1000' };
  const quote = (amountSat: bigint, coins: BitcoinCoin[], underWaySat = 0n, payee = to) =>
    quoteTransfer({
      payment: { chain, from, to: payee, amountSat },
      coins,
      rates: terms,
      balanceSat: sum(coins) + underWaySat,
      underWaySat,
    });

  it('says what the fee is, or would be once change has come back', () => {
    expect(quote(50_000n, coinsOf(100_000))).toEqual({ outcome: 'payable', feeSat: 141n });
    expect(quote(50_000n, [], 100_000n)).toEqual({ outcome: 'payable', feeSat: 110n });
  });

  it('knows money that is missing from money that lies in too many coins', () => {
    expect(quote(100_000n, coinsOf(100_000))).toEqual({ outcome: 'short', feeSat: 110n });
    expect(quote(50_000n, [])).toEqual({ outcome: 'short', feeSat: 110n });
    expect(quote(60_000n, coinsOf(...Array<number>(70).fill(1000)))).toEqual({
      outcome: 'impossible',
      reason:
        "the wallet's money lies in many small coins; one transaction takes 50 of them, which pay 0.00046558 BTC at most",
    });
  });

  it('says what nodes would not pass on, after what the wallet cannot pay', () => {
    expect(quote(293n, coinsOf(100_000))).toMatchObject({
      outcome: 'impossible',
      reason: expect.stringMatching(/^0\.00000293 BTC are dust: .* below 0\.00000294 BTC/),
    });
    expect(quote(293n, coinsOf(300))).toMatchObject({ outcome: 'short' });
    expect(quote(1000n, coinsOf(100_000), 0n, from)).toMatchObject({ outcome: 'impossible' });
    expect(quote(294n, coinsOf(300), 0n, from)).toMatchObject({ outcome: 'short' });
  });
});

describe('what replaces a Bitcoin payment', () => {
  const market = fc.bigInt(1000n, 600_000n);
  const terms = (satPerKvb: bigint | number, ceilingSatPerKvb: bigint | number) =>
    ({ satPerKvb: `${satPerKvb}`, ceilingSatPerKvb: `${ceilingSatPerKvb}` }) as BitcoinReplacementTerms;
  const replace = (
    before: BitcoinTransaction,
    p: { purpose: 'payment' | 'noop'; isSigned?: boolean; terms: BitcoinReplacementTerms },
  ) =>
    bitcoinFamily.replace({
      before: { kind: 'bitcoin-transaction', transaction: before },
      isSigned: true,
      from,
      ...p,
    });
  const slot = (transaction: BitcoinTransaction) =>
    bitcoinFamily.slotOf({ kind: 'bitcoin-transaction', transaction }, from);

  it('spends the same coins, is never dust nor above the ceiling, and pays more by the rules of BIP-125', async () => {
    const seen = { payment: 0, noop: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(
        payments,
        wallets,
        rates,
        fc.array(fc.tuple(market, fc.bigInt(1n, 6n), fc.constantFrom('payment', 'noop')), {
          minLength: 1,
          maxLength: 4,
        }),
        async (payment, coins, first, steps) => {
          const result = await build({ payment, coins, rates: first });
          if (result.outcome !== 'built') return;
          let before = transactionOf(result.payload);
          for (const [satPerKvb, factor, wanted] of steps) {
            const purpose = before.outputs[0]!.address === from ? 'noop' : wanted;
            const ceiling = satPerKvb * factor;
            const replaced = replace(before, { purpose, terms: terms(satPerKvb, ceiling) });
            if ('refusal' in replaced) {
              seen.refused++;
              expect(replaced.refusal).toMatch(/^Its transaction pays \d+ sat for \d+ virtual bytes; .*\.$/);
              continue;
            }
            seen[purpose]++;
            const after = transactionOf(replaced.payload);
            expect(after.inputs).toEqual(before.inputs);
            expect(slot(after)).toBe(slot(before));
            expect(after.lockTime).toBe(0);
            expect(fee(after)).toBeGreaterThanOrEqual(fee(before) + size(after));
            expect(fee(after) * size(before) * 100n).toBeGreaterThan(fee(before) * size(after) * 109n);
            expect(fee(after) * 1000n).toBeGreaterThanOrEqual(satPerKvb * size(after));
            expect(fee(after) * 1000n).toBeLessThanOrEqual(ceiling * size(after));
            for (const { address, valueSat } of after.outputs)
              expect(BigInt(valueSat)).toBeGreaterThanOrEqual(dustLimit(address, chain));
            const own = after.outputs.filter(({ address }) => address === from);
            if (purpose === 'noop') expect(after.outputs).toEqual([own[0]]);
            else {
              expect(after.outputs[0]).toEqual(before.outputs[0]);
              expect(after.outputs.slice(1)).toEqual(own);
            }
            before = after;
          }
        },
      ),
      { numRuns: 600 },
    );
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(50);
  });

  const coins = coinsOf(100_000);
  const first: BitcoinTransaction = {
    chain,
    inputs: coins.map(({ txid: id, vout, valueSat }) => ({ txid: id, vout, valueSat })),
    outputs: [
      { address: to, valueSat: '50000' },
      { address: from, valueSat: '49859' },
    ],
    lockTime: 0,
  };
  const outputs = (result: ReturnType<typeof replace>) =>
    'refusal' in result
      ? result.refusal
      : transactionOf(result.payload).outputs.map(({ valueSat }) => Number(valueSat));

  it('pays as much as a new one would, out of the change', () => {
    expect(outputs(replace(first, { purpose: 'payment', terms: terms(10_000, 100_000) }))).toEqual([50_000, 48_590]);
    // A market that has fallen does not matter: nodes want one satoshi more for each byte.
    expect(outputs(replace(first, { purpose: 'payment', terms: terms(1000, 100_000) }))).toEqual([50_000, 49_718]);
    // A market above the ceiling does not either: as much as may be paid is better than what was paid.
    expect(outputs(replace(first, { purpose: 'payment', terms: terms(90_000, 20_000) }))).toEqual([50_000, 47_180]);
  });

  it('pays what nodes asked for, or is refused where that is above the ceiling, with both rates', () => {
    const asked = (floor: number, ceiling: number) => ({ ...terms(1000, ceiling), floorSatPerKvb: `${floor}` });
    expect(outputs(replace(first, { purpose: 'payment', terms: asked(10_000, 10_000) }))).toEqual([50_000, 48_590]);
    for (const isSigned of [true, false])
      expect(outputs(replace(first, { purpose: 'payment', isSigned, terms: asked(10_000, 9_999) }))).toBe(
        'Its transaction pays 141 sat for 141 virtual bytes; a replacement would have to pay 10000 sat for a thousand of them, and the ceiling is 9999 sat.',
      );
    // A tenth more than before is more than what was asked for.
    expect(outputs(replace(first, { purpose: 'payment', terms: asked(1_001, 100_000) }))).toEqual([50_000, 49_718]);
  });

  it('is signed up to the ceiling for a cancel that nodes would not take just now', () => {
    const asked = { ...terms(1000, 9_000), floorSatPerKvb: '10000' };
    expect(outputs(replace(first, { purpose: 'noop', terms: asked }))).toEqual([99_010]);
  });

  it('takes everything back for a cancel', () => {
    expect(outputs(replace(first, { purpose: 'noop', terms: terms(10_000, 100_000) }))).toEqual([98_900]);
  });

  it('gives change that would be dust to the miner', () => {
    const p = { purpose: 'payment', terms: terms(353_000, 1_000_000) } as const;
    expect(outputs(replace(first, p))).toEqual([50_000]);
  });

  it('is refused when the change cannot pay it, or the ceiling is reached', () => {
    const changeless = { ...first, outputs: [{ address: to, valueSat: '99800' }] };
    expect(outputs(replace(changeless, { purpose: 'payment', terms: terms(1000, 100_000) }))).toBe(
      'Its transaction pays 200 sat for 110 virtual bytes; its change has 110 sat too little for a replacement.',
    );
    expect(outputs(replace(first, { purpose: 'payment', terms: terms(500_000, 1_000_000) }))).toBe(
      'Its transaction pays 141 sat for 141 virtual bytes; its change has 5000 sat too little for a replacement.',
    );
    expect(outputs(replace(first, { purpose: 'payment', terms: terms(1000, 1000) }))).toBe(
      'Its transaction pays 141 sat for 141 virtual bytes; a replacement would have to pay 1101 sat for a thousand of them, and the ceiling is 1000 sat.',
    );
    expect(outputs(replace(first, { purpose: 'noop', terms: terms(1000, 1500) }))).toBe(
      'Its transaction pays 141 sat for 141 virtual bytes; a replacement would have to pay 251 sat, and the ceiling allows 165 sat.',
    );
    const poor = {
      ...first,
      inputs: [{ ...first.inputs[0]!, valueSat: '50141' }],
      outputs: [{ address: to, valueSat: '50000' }],
    };
    expect(outputs(replace(poor, { purpose: 'noop', terms: terms(500_000, 1_000_000) }))).toMatch(
      /its coins have 5153 sat too little for a replacement\.$/,
    );
  });

  it('pays what is asked now, and no more, where nothing was signed yet', () => {
    const p = { isSigned: false, purpose: 'payment', terms: terms(1000, 5000) } as const;
    const dear = { ...first, outputs: [first.outputs[0]!, { address: from, valueSat: '49000' }] };
    expect(outputs(replace(dear, p))).toEqual([50_000, 49_859]);
    expect(outputs(replace(dear, { ...p, purpose: 'noop' }))).toEqual([99_890]);
    expect(outputs(replace(dear, { ...p, terms: terms(6000, 5000) }))).toMatch(/would have to pay 6000 sat/);
  });
});

describe('a Bitcoin payload', () => {
  const transaction: BitcoinTransaction = {
    chain,
    inputs: coinsOf(1000, 2000).map(({ txid: id, vout, valueSat }) => ({ txid: id, vout, valueSat })),
    outputs: [{ address: to, valueSat: '2500' }],
    lockTime: 0,
  };
  const payload: TransactionPayload = { kind: 'bitcoin-transaction', transaction };

  it('stands at its first coin, has one signature for each, costs what it leaves, and does not expire', () => {
    expect(bitcoinFamily.slotOf(payload, from)).toBe(`${chain}/coin/${txid(0)}/0`);
    expect(bitcoinFamily.toSign(payload)).toEqual([
      { kind: 'bitcoin-input', input: 0, transaction },
      { kind: 'bitcoin-input', input: 1, transaction },
    ]);
    expect(bitcoinFamily.maxFeeOf(payload)).toBe(500n);
    expect(bitcoinFamily.isOutdated(payload, new Date('2100-01-01'))).toBe(false);
  });

  it('is none of another family', () => {
    const other = { kind: 'evm-transaction', transaction: {} } as TransactionPayload;
    expect(() => bitcoinFamily.maxFeeOf(other)).toThrow('A evm-transaction is none of a Bitcoin chain.');
  });
});
