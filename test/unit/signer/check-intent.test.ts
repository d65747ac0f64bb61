import fc from 'fast-check';
import { utils } from 'tronweb';
import { encodeFunctionData, erc20Abi, type Hex, zeroAddress } from 'viem';
import { describe, expect, it } from 'vitest';
import type {
  BitcoinTransaction,
  EvmTransaction,
  PaymentIntent,
  TransferAuthorization,
  TronTransaction,
} from '../../../shared/domain/receipt.ts';
import { checkIntent } from '../../../signer/check-intent.ts';
import { Refusal } from '../../../signer/refusal.ts';
import { bitcoinChains, payableScript, tronAddress, tronTransaction } from '../../support/arbitrary-payloads.ts';

const address = fc.bigInt({ min: 1n, max: 2n ** 160n - 1n }).map((n): Hex => `0x${n.toString(16).padStart(40, '0')}`);
const amount = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const chainId = fc.integer({ min: 1, max: 2 ** 31 });
const wei = fc.bigInt({ min: 0n, max: 2n ** 100n });

const payment = fc
  .record({
    asset: fc.option(address, { nil: 'native' as const }),
    to: address,
    amount,
    chainId,
    gas: wei,
    maxFee: wei,
  })
  .map((p): { tx: EvmTransaction; intent: PaymentIntent } => {
    const token = p.asset !== 'native';
    const transfer = { abi: erc20Abi, functionName: 'transfer', args: [p.to, p.amount] } as const;
    return {
      tx: {
        chainId: p.chainId,
        nonce: 0,
        to: token ? (p.asset as Hex) : p.to,
        valueWei: token ? '0' : `${p.amount}`,
        data: token ? encodeFunctionData(transfer) : '0x',
        gas: `${p.gas}`,
        maxFeePerGasWei: `${p.maxFee}`,
        maxPriorityFeePerGasWei: '0',
      },
      intent: {
        chain: `eip155:${p.chainId}`,
        asset: p.asset,
        to: p.to,
        amount_minor: `${p.amount}`,
        max_fee_minor: `${p.gas * p.maxFee}`,
      },
    };
  });

const check = (allowed: PaymentIntent, transaction: EvmTransaction) =>
  checkIntent(allowed, { payload: { kind: 'evm-transaction', transaction }, wallet: zeroAddress });

describe('what a transaction does against what its receipt allows', () => {
  it('agrees for every payment made from its own intent, up to the very fee ceiling', () => {
    fc.assert(fc.property(payment, ({ tx, intent }) => check(intent, tx)));
  });

  it('never agrees when recipient, asset, amount or chain differ', () => {
    const differing = fc.tuple(payment, payment, fc.constantFrom('chain', 'asset', 'to', 'amount_minor' as const));
    fc.assert(
      fc.property(differing, ([one, other, field]) => {
        fc.pre(one.intent[field as 'chain'] !== other.intent[field as 'chain']);
        const bent = { ...one.intent, [field]: other.intent[field as 'chain'] };
        expect(() => check(bent, one.tx)).toThrow(Refusal);
      }),
    );
  });

  it('never agrees one wei above the fee ceiling', () => {
    fc.assert(
      fc.property(payment, ({ tx, intent }) => {
        fc.pre(BigInt(intent.max_fee_minor) > 0n);
        const lower = { ...intent, max_fee_minor: `${BigInt(intent.max_fee_minor) - 1n}` };
        expect(() => check(lower, tx)).toThrow(/above the receipt's ceiling/);
      }),
    );
  });

  it('never agrees with call data of which a single byte was changed, added or removed', () => {
    const token = payment.filter(({ tx }) => tx.data !== '0x');
    fc.assert(
      fc.property(token, fc.nat({ max: 67 }), fc.integer({ min: 1, max: 255 }), ({ tx, intent }, at, xor) => {
        const bytes = Buffer.from(tx.data.slice(2), 'hex');
        const changed = Buffer.from(bytes);
        changed[at]! ^= xor;
        for (const data of [changed, Buffer.concat([bytes, Buffer.of(xor)]), bytes.subarray(0, at)]) {
          const bent: EvmTransaction = { ...tx, data: `0x${data.toString('hex')}` };
          expect(() => check(intent, bent)).toThrow(Refusal);
        }
      }),
    );
  });
});

const seconds = fc.integer({ min: 1, max: 2 ** 40 });
const nonce = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((b): Hex => `0x${Buffer.from(b).toString('hex')}`);
const authorised = fc
  .record({
    ...{ asset: address, from: address, to: address, amount, chainId },
    ...{ nonce, validAfter: seconds, validBefore: seconds },
  })
  .map((p): { authorization: TransferAuthorization; intent: PaymentIntent } => ({
    authorization: {
      domain: { name: 'USD Coin', version: '2', chainId: p.chainId, verifyingContract: p.asset },
      from: p.from,
      to: p.to,
      value: `${p.amount}`,
      validAfter: p.validAfter,
      validBefore: p.validBefore,
      nonce: p.nonce,
    },
    intent: {
      chain: `eip155:${p.chainId}`,
      asset: p.asset,
      to: p.to,
      amount_minor: `${p.amount}`,
      max_fee_minor: '0',
      authorization: { valid_after: p.validAfter, valid_before: p.validBefore, nonce: p.nonce },
    },
  }));
const checkAuthorised = (
  allowed: PaymentIntent,
  { authorization, wallet = authorization.from }: { authorization: TransferAuthorization; wallet?: Hex },
) => checkIntent(allowed, { payload: { kind: 'transfer-authorization', authorization }, wallet });

describe('what an authorisation allows against what its receipt allows', () => {
  it('agrees for every one made from its own intent', () => {
    fc.assert(fc.property(authorised, ({ authorization, intent }) => checkAuthorised(intent, { authorization })));
  });

  it('never agrees when any of its members is another one: a receipt is good for just one', () => {
    const members = ['to', 'from', 'value', 'validAfter', 'validBefore', 'nonce'] as const;
    fc.assert(
      fc.property(authorised, authorised, fc.constantFrom(...members), (one, other, member) => {
        fc.pre(one.authorization[member] !== other.authorization[member]);
        const authorization = { ...one.authorization, [member]: other.authorization[member] };
        const wallet = one.authorization.from;
        expect(() => checkAuthorised(one.intent, { authorization, wallet })).toThrow(Refusal);
      }),
    );
    fc.assert(
      fc.property(
        authorised,
        authorised,
        fc.constantFrom('chainId', 'verifyingContract' as const),
        (one, other, member) => {
          fc.pre(one.authorization.domain[member] !== other.authorization.domain[member]);
          const domain = { ...one.authorization.domain, [member]: other.authorization.domain[member] };
          expect(() => checkAuthorised(one.intent, { authorization: { ...one.authorization, domain } })).toThrow(
            Refusal,
          );
        },
      ),
    );
  });

  it('never agrees with a receipt that names no authorisation, nor is a transaction allowed by one that does', () => {
    fc.assert(
      fc.property(authorised, payment, ({ authorization, intent }, { tx, intent: plain }) => {
        const { authorization: named, ...without } = intent;
        expect(() => checkAuthorised(without, { authorization })).toThrow(/nonce/);
        expect(() => check({ ...plain, authorization: named }, tx)).toThrow(/allows an authorisation/);
      }),
    );
  });
});

const sat = fc.bigInt({ min: 1n, max: 10n ** 12n });
const bitcoinPaid = fc
  .constantFrom(...bitcoinChains)
  .chain((chain) =>
    fc.record({
      chain: fc.constant(chain),
      wallet: payableScript(chain).map((each) => each.address),
      to: payableScript(chain).map((each) => each.address),
      ...{ amount: sat, change: fc.option(sat), fee: fc.bigInt({ min: 0n, max: 10n ** 6n }) },
      coins: fc.integer({ min: 1, max: 5 }),
      isChangeFirst: fc.boolean(),
    }),
  )
  .filter(({ wallet, to }) => wallet !== to)
  .map(({ chain, wallet, to, amount, change, fee, coins, isChangeFirst }) => {
    const total = amount + (change ?? 0n) + fee;
    const values = Array.from({ length: coins }, (_, i) => (i === 0 ? total - BigInt(coins - 1) : 1n));
    const outputs = [
      { address: to, valueSat: `${amount}` },
      ...(change === null ? [] : [{ address: wallet, valueSat: `${change}` }]),
    ];
    const transaction: BitcoinTransaction = {
      chain,
      inputs: values.map((value, vout) => ({ txid: '00'.repeat(32), vout, valueSat: `${value}` })),
      outputs: isChangeFirst ? outputs.toReversed() : outputs,
      lockTime: 0,
    };
    const asked = { asset: 'native', to, amount_minor: `${amount}`, max_fee_minor: `${fee}` };
    return { transaction, wallet, intent: { chain, ...asked } as PaymentIntent };
  });
const checkBitcoin = (
  allowed: PaymentIntent,
  { transaction, wallet }: { transaction: BitcoinTransaction; wallet: string },
) => checkIntent(allowed, { payload: { kind: 'bitcoin-input', input: 0, transaction }, wallet });

describe('what a Bitcoin transaction does against what its receipt allows', () => {
  it('agrees for every payment made from its own intent, up to the very fee ceiling', () => {
    fc.assert(fc.property(bitcoinPaid, ({ intent, ...paid }) => checkBitcoin(intent, paid)));
  });

  it('never agrees when recipient, amount, asset or chain differ', () => {
    const fields = ['chain', 'to', 'amount_minor', 'asset'] as const;
    fc.assert(
      fc.property(bitcoinPaid, bitcoinPaid, fc.constantFrom(...fields), (one, other, field) => {
        const bent = { ...one.intent, [field]: field === 'asset' ? other.wallet : other.intent[field] };
        fc.pre(bent[field] !== one.intent[field]);
        expect(() => checkBitcoin(bent, one)).toThrow(Refusal);
      }),
    );
  });

  it('never agrees with one satoshi more or less in any input or output', () => {
    fc.assert(
      fc.property(bitcoinPaid, fc.nat(6), fc.constantFrom(1n, -1n), ({ transaction, wallet, intent }, place, by) => {
        const { inputs, outputs } = transaction;
        const at = place % (inputs.length + outputs.length);
        const bend = <T extends { valueSat: string }>(of: T[], i: number) =>
          of.map((each, j) => (i === j ? { ...each, valueSat: `${BigInt(each.valueSat) + by}` } : each));
        const bent = { ...transaction, inputs: bend(inputs, at), outputs: bend(outputs, at - inputs.length) };
        // Less in, or more out: a lower fee is allowed, but never a fee below nothing.
        const isLowerFee = at < inputs.length ? by < 0n : by > 0n;
        const isPayee = at >= inputs.length && outputs[at - inputs.length]!.address !== wallet;
        if (isLowerFee && !isPayee && intent.max_fee_minor !== '0') checkBitcoin(intent, { transaction: bent, wallet });
        else expect(() => checkBitcoin(intent, { transaction: bent, wallet })).toThrow(Refusal);
      }),
    );
  });

  it('never agrees with a further output, nor with another wallet’s change', () => {
    fc.assert(
      fc.property(bitcoinPaid, bitcoinPaid, ({ transaction, wallet, intent }, other) => {
        const { outputs } = transaction;
        fc.pre(![wallet, intent.to].includes(other.wallet));
        const further = [...outputs, { address: other.wallet, valueSat: '1' }];
        const twice = [...outputs, ...outputs];
        for (const bent of [further, twice]) {
          expect(() => checkBitcoin(intent, { transaction: { ...transaction, outputs: bent }, wallet })).toThrow(
            Refusal,
          );
        }
        if (outputs.length > 1)
          expect(() => checkBitcoin(intent, { transaction, wallet: other.wallet })).toThrow(Refusal);
      }),
    );
  });

  it('takes a single output to the wallet itself for what pays nobody, and for nothing else', () => {
    fc.assert(
      fc.property(bitcoinPaid, ({ transaction, wallet, intent }) => {
        const back = { ...transaction, outputs: [{ address: wallet, valueSat: '1' }] };
        const noop = { ...intent, to: wallet, amount_minor: '0', max_fee_minor: `${10n ** 13n}` };
        checkBitcoin(noop, { transaction: back, wallet });
        for (const bent of [
          { ...noop, amount_minor: '1' },
          { ...noop, to: intent.to },
          { ...noop, max_fee_minor: '0' },
        ]) {
          expect(() => checkBitcoin(bent, { transaction: back, wallet })).toThrow(Refusal);
        }
        expect(() => checkBitcoin(noop, { transaction, wallet })).toThrow(Refusal);
        const twice = { ...back, outputs: [...back.outputs, ...back.outputs] };
        expect(() => checkBitcoin(noop, { transaction: twice, wallet })).toThrow(/^outputs must be/);
      }),
    );
  });
});

const tronPaid = fc
  .tuple(tronTransaction({ amountMax: 2n ** 62n }), tronAddress, fc.bigInt({ min: 1n, max: 2n ** 256n - 1n }))
  .filter(([{ contract }]) => contract.type === 'trigger' || contract.amountSun !== '0')
  .map(([transaction, to, amount]) => {
    const { chain, contract, feeLimitSun, bandwidthSun } = transaction;
    const max_fee_minor = `${BigInt(feeLimitSun) + BigInt(bandwidthSun)}`;
    if (contract.type === 'transfer') {
      const intent = { chain, asset: 'native', to: contract.to, amount_minor: contract.amountSun, max_fee_minor };
      return { transaction, intent };
    }
    const word = (hex: string) => hex.padStart(64, '0');
    const data = `a9059cbb${word(utils.address.toHex(to).slice(2))}${word(amount.toString(16))}`;
    return {
      transaction: { ...transaction, contract: { ...contract, data } },
      intent: { chain, asset: contract.contract, to, amount_minor: `${amount}`, max_fee_minor },
    };
  });
const checkTron = (allowed: PaymentIntent, transaction: TronTransaction, wallet = transaction.from) =>
  checkIntent(allowed, { payload: { kind: 'tron-transaction', transaction }, wallet });

describe('what a Tron transaction does against what its receipt allows', () => {
  it('agrees for every payment made from its own intent, up to the very fee ceiling', () => {
    fc.assert(fc.property(tronPaid, ({ transaction, intent }) => checkTron(intent, transaction)));
  });

  it('never agrees when recipient, amount, asset, chain or owner differ, nor one sun above the ceiling', () => {
    const fields = ['chain', 'to', 'amount_minor', 'asset'] as const;
    fc.assert(
      fc.property(tronPaid, tronPaid, fc.constantFrom(...fields), ({ transaction, intent }, other, field) => {
        const lower = { ...intent, max_fee_minor: `${BigInt(intent.max_fee_minor) - 1n}` };
        if (intent.max_fee_minor !== '0') expect(() => checkTron(lower, transaction)).toThrow(/above the receipt's/);
        expect(() => checkTron(intent, transaction, other.transaction.from)).toThrow(/^payer is/);
        fc.pre(other.intent[field] !== intent[field]);
        expect(() => checkTron({ ...intent, [field]: other.intent[field] }, transaction)).toThrow(Refusal);
      }),
    );
  });

  it('never agrees with call data of which a single byte was changed, added or removed', () => {
    const call = tronPaid.filter(({ transaction }) => transaction.contract.type === 'trigger');
    fc.assert(
      fc.property(call, fc.nat({ max: 67 }), fc.integer({ min: 1, max: 255 }), ({ transaction, intent }, at, xor) => {
        const { contract } = transaction;
        if (contract.type !== 'trigger') return;
        const bytes = Buffer.from(contract.data, 'hex');
        const changed = Buffer.from(bytes);
        changed[at]! ^= xor;
        for (const data of [changed, Buffer.concat([bytes, Buffer.of(xor)]), bytes.subarray(0, at)]) {
          const bent = { ...transaction, contract: { ...contract, data: data.toString('hex') } };
          expect(() => checkTron(intent, bent)).toThrow(Refusal);
        }
      }),
    );
  });
});
