import fc from 'fast-check';
import { encodeFunctionData, erc20Abi, type Hex, zeroAddress } from 'viem';
import { describe, expect, it } from 'vitest';
import type { EvmTransaction, PaymentIntent, TransferAuthorization } from '../../../shared/domain/receipt.ts';
import { checkIntent } from '../../../signer/check-intent.ts';
import { Refusal } from '../../../signer/refusal.ts';

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
