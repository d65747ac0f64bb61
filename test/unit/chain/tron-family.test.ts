import { secp256k1 } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writeTronAddress } from '../../../shared/chain/tron/address.ts';
import { tronFamily } from '../../../shared/chain/tron/family.ts';
import type { TronPrepared } from '../../../shared/chain/tron/prepared.ts';
import type { PaymentIntent, TransactionPayload } from '../../../shared/domain/receipt.ts';
import { bytesOf, readTransaction, signerOf } from '../../support/tron-bytes.ts';

const chain = 'tron:0xcd8690dc';
const usdt = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf';
const key = Uint8Array.from({ length: 32 }, () => 7);
const wallet = signerOf('11'.repeat(32), bytesOf(signed('11'.repeat(32), key).slice(2)))!;
const maxSafe = BigInt(Number.MAX_SAFE_INTEGER);

const address = fc
  .uint8Array({ minLength: 20, maxLength: 20 })
  .map((bytes) => writeTronAddress(Uint8Array.of(0x41, ...bytes)));
const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((each) => Buffer.from(each).toString('hex'));
const sun = fc.bigInt({ min: 0n, max: maxSafe / 4n });
const timeMs = fc.integer({ min: 1, max: 4_000_000_000_000 });

const preparedOf = (change: Partial<TronPrepared> = {}): TronPrepared => ({
  outcome: 'ready',
  maxFeeMinor: '27000000',
  atBlock: 70_000_000,
  balanceMinor: '1',
  nativeBalanceMinor: '1',
  refBlockBytes: '1d80',
  refBlockHash: '0123456789abcdef',
  timestampMs: 1_790_000_000_000,
  expirationMs: 1_790_000_600_000,
  feeLimitSun: '26655000',
  bandwidthSun: '345000',
  formerAbsentAtMs: null,
  ...change,
});

const intentOf = (change: Partial<PaymentIntent> = {}): PaymentIntent => ({
  chain,
  asset: 'native',
  to: 'TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC',
  amount_minor: '1',
  max_fee_minor: '27000000',
  ...change,
});

const build = (p: { intent: PaymentIntent; prepared: TronPrepared; former?: TransactionPayload }) =>
  tronFamily.build({ from: wallet, places: nowhere, ...p });

const nowhere = {
  nextNonce: () => Promise.reject(new Error('Tron has no nonces.')),
  freeCoins: () => Promise.reject(new Error('Tron has no coins.')),
};

async function built(p: Parameters<typeof build>[0]): Promise<TransactionPayload> {
  const result = await build(p);
  if (result.outcome !== 'built') throw new Error(result.outcome);
  return result.payload;
}

function signed(id: string, privateKey: Uint8Array): `0x${string}` {
  const made = secp256k1.sign(Buffer.from(id, 'hex'), privateKey, { prehash: false, format: 'recovered' });
  return `0x${Buffer.from(made.subarray(1)).toString('hex')}${(27 + made[0]!).toString(16)}`;
}

function assembled(payload: TransactionPayload, privateKey = key) {
  const id = tronFamily.slotOf(payload, wallet).split('/').at(-1)!;
  return tronFamily.assemble({ payload, signatures: [signed(id, privateKey)], from: wallet });
}

describe('a payment on Tron', () => {
  it('is, in its signed bytes, what was intended and prepared, whatever it was; as other code reads them', async () => {
    const cases = fc.record({
      to: address,
      amount: fc.bigInt({ min: 1n, max: maxSafe }),
      refBlockBytes: hex(2),
      refBlockHash: hex(8),
      timestampMs: timeMs,
      expirationMs: timeMs,
      feeLimit: sun,
      bandwidth: sun,
      asset: fc.oneof(fc.constant('native'), address),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ to, amount, feeLimit, bandwidth, asset, ...rest }) => {
        const fees = { feeLimitSun: feeLimit.toString(), bandwidthSun: bandwidth.toString() };
        const intent = intentOf({ asset, to, amount_minor: `${amount}`, max_fee_minor: `${feeLimit + bandwidth}` });
        const payload = await built({ intent, prepared: preparedOf({ ...rest, ...fees }) });
        const { raw, hash, offer } = assembled(payload);
        const read = readTransaction(bytesOf(raw));
        expect(read).toMatchObject({
          id: hash,
          refBlockBytes: rest.refBlockBytes,
          refBlockHash: rest.refBlockHash,
          timestampMs: BigInt(rest.timestampMs),
          expirationMs: BigInt(rest.expirationMs),
          feeLimitSun: feeLimit,
        });
        if (asset === 'native')
          expect(read.contract).toEqual({ type: 'TransferContract', owner: wallet, to, amountSun: amount });
        else {
          const word = Buffer.from(amount.toString(16).padStart(64, '0'), 'hex').toString('hex');
          expect(read.contract).toMatchObject({ type: 'TriggerSmartContract', owner: wallet, contract: asset });
          expect(read.contract).toHaveProperty('data', expect.stringMatching(new RegExp(`^a9059cbb.{64}${word}$`)));
        }
        expect(read.signatures).toHaveLength(1);
        expect(signerOf(hash, read.signatures[0]!)).toBe(wallet);
        expect(offer?.expires_at).toBe(new Date(rest.expirationMs).toISOString());
        expect(tronFamily.offerOf(raw)).toEqual(offer);
        expect(tronFamily.maxFeeOf(payload)).toBe(feeLimit + bandwidth);
      }),
      { numRuns: 60 },
    );
  });

  it('of more sun than can be encoded exactly is refused, never rounded', async () => {
    for (const amount of [maxSafe + 1n, (1n << 63n) - 1n, 1n << 64n]) {
      const payload = await built({ intent: intentOf({ amount_minor: `${amount}` }), prepared: preparedOf() });
      expect(() => tronFamily.slotOf(payload, wallet)).toThrow(`${amount} sun cannot be encoded`);
    }
  });

  it.each(['-1', '1.5', '1e3', '', '0x10', ' 1', '01', 'NaN'])('of "%s" sun is none', async (amount_minor) => {
    const payload = await built({ intent: intentOf({ amount_minor }), prepared: preparedOf() });
    expect(() => tronFamily.slotOf(payload, wallet)).toThrow('cannot be encoded');
  });

  it('of a token takes any amount of 256 bits', async () => {
    const amount = (1n << 256n) - 1n;
    const payload = await built({
      intent: intentOf({ asset: usdt, amount_minor: `${amount}` }),
      prepared: preparedOf(),
    });
    expect(readTransaction(bytesOf(assembled(payload).raw)).contract).toHaveProperty(
      'data',
      expect.stringMatching(/f{64}$/),
    );
  });

  it('is not built when its fees are more than the intent allows', async () => {
    await expect(build({ intent: intentOf({ max_fee_minor: '26999999' }), prepared: preparedOf() })).rejects.toThrow(
      'The fee may reach 27000000 sun, but the intent allows 26999999 sun.',
    );
  });

  it('is not joined with a signature of another key, or of another transaction', async () => {
    const payload = await built({ intent: intentOf(), prepared: preparedOf() });
    const other = await built({ intent: intentOf({ amount_minor: '2' }), prepared: preparedOf() });
    expect(() =>
      assembled(
        payload,
        Uint8Array.from({ length: 32 }, () => 8),
      ),
    ).toThrow(/is that of T.*, not of T/);
    const id = tronFamily.slotOf(other, wallet).split('/').at(-1)!;
    expect(() => tronFamily.assemble({ payload, signatures: [signed(id, key)], from: wallet })).toThrow('is that of');
    expect(() => tronFamily.assemble({ payload, signatures: ['0x00'], from: wallet })).toThrow('nobody');
  });

  it('has the id of its bytes as its place, which no other payment has', async () => {
    const payload = await built({ intent: intentOf(), prepared: preparedOf() });
    const { hash } = assembled(payload);
    expect(tronFamily.slotOf(payload, wallet)).toBe(`${chain}/${wallet}/transaction/${hash}`);
    const later = await built({ intent: intentOf(), prepared: preparedOf({ timestampMs: 1_790_000_000_001 }) });
    expect(tronFamily.slotOf(later, wallet)).not.toBe(tronFamily.slotOf(payload, wallet));
  });

  it('is too old to be sent from half a minute before it expires', async () => {
    const payload = await built({ intent: intentOf(), prepared: preparedOf() });
    expect(tronFamily.isOutdated(payload, new Date(1_790_000_570_000))).toBe(false);
    expect(tronFamily.isOutdated(payload, new Date(1_790_000_570_001))).toBe(true);
  });

  it('is built anew only when the chain has shown that the former one is over', async () => {
    const former = await built({ intent: intentOf(), prepared: preparedOf() });
    const again = (formerAbsentAtMs: number | null) =>
      build({
        intent: intentOf(),
        prepared: preparedOf({ expirationMs: 1_790_001_200_000, formerAbsentAtMs }),
        former,
      });
    expect(await again(null)).toEqual({ outcome: 'unprepared' });
    expect(await again(1_790_000_599_999)).toEqual({ outcome: 'unprepared' });
    expect(await again(1_790_000_600_000)).toMatchObject({ outcome: 'built' });
  });

  it('is never replaced: the refusal says until when it may be carried out', async () => {
    const before = await built({ intent: intentOf(), prepared: preparedOf() });
    const terms = { atBlock: 1, nativeBalanceMinor: '1' };
    for (const purpose of ['payment', 'noop'] as const)
      expect(tronFamily.replace({ before, isSigned: true, purpose, from: wallet, terms })).toEqual({
        refusal: expect.stringContaining('2026-09-21T14:23:20.000Z'),
      });
  });
});
