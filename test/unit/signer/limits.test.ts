import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type CryptoKey, exportJWK, generateKeyPair } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { familyOf } from '../../../shared/chain/families.ts';
import type { BitcoinTransaction, SignPayload, TronTransaction } from '../../../shared/domain/receipt.ts';
import type { SignerContext } from '../../../signer/context.ts';
import { createHoldTable } from '../../../signer/holds.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { holdLimit, type LimitHold, type LimitNews } from '../../../signer/limits.ts';
import { type AssetLimit, type LimitsClaims, signLimits } from '../../../signer/limits-document.ts';
import { limitsPage, limitsPageSchema, mergeLimits } from '../../../signer/merge-limits.ts';
import { registerOwnerKey, replaceOwnerKey, signOwnerKeyChange } from '../../../signer/owner-key.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { DAY_MS, type Level, spentInDay } from '../../../signer/rolling-day.ts';
import { limitsInForce, listLimits, setLimits } from '../../../signer/set-limits.ts';
import { useOf } from '../../../signer/slot.ts';
import { openSignerStore } from '../../../signer/store.ts';
import {
  bitcoinPayment,
  type FamilyPayment,
  NILE,
  someCoin,
  TRON_TOKEN,
  tronPayment,
  tronTokenPayment,
} from '../../support/family-payments.ts';
import { nativeTransfer, type TestKey, TOKEN, tokenTransfer } from '../../support/payments.ts';

/** The generator of secp256k1: any point does. */
const PUBLIC_POINT =
  '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8';

const keyId = 'ckey_1';
const native = 'eip155:31337/native';
const token = `eip155:31337/${TOKEN.toLowerCase()}`;
const home = mkdtempSync(join(tmpdir(), 'purser-limits-'));
let nowMs = Date.now();
let owner: { privateKey: CryptoKey; publicKey: string };

async function newOwner() {
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { extractable: true });
  return { privateKey, publicKey: (await exportJWK(publicKey)).x! };
}

type Signer = Pick<SignerContext, 'party' | 'store' | 'backup' | 'holds' | 'now' | 'log'>;
const signers = new Map<Party, SignerContext>();
const at = (party: Party) => signers.get(party)!;

/** A signer's store and what it has in memory; no process, because nothing here is computed by the engine. */
function open(party: Party): void {
  const now = () => new Date(nowMs);
  const store = openSignerStore({
    dataDir: join(home, `${party}`),
    party,
    engineVersion: 'v1',
    keyEncryption: createKeyEncryption([createKek(Buffer.alloc(32, party))]),
    now,
  });
  const log = { warn() {}, info() {} } as unknown as SignerContext['log'];
  const backup = { changed() {} } as unknown as SignerContext['backup'];
  const signer: Signer = { party, store, backup, holds: createHoldTable(), now, log };
  signers.set(party, signer as SignerContext);
}

function makeKey(id: string, ownerKey: string | null): void {
  for (const party of PARTIES) {
    const { store } = at(party);
    store.reserveKey({ keyId: id, sessionId: `${id} ${party}`, ownerKey });
    store.putShare({ keyId: id, share: randomBytes(8), publicKey: randomBytes(65), chainCode: randomBytes(32) });
    store.activateKey(id);
  }
}

beforeAll(async () => {
  owner = await newOwner();
  for (const party of PARTIES) open(party);
  makeKey(keyId, owner.publicKey);
});
afterAll(() => {
  for (const party of PARTIES) at(party).store.close();
  rmSync(home, { recursive: true, force: true });
});

let wallet = '';
let version = 0;
beforeEach(() => {
  wallet = newWallet();
});
const newWallet = () => `0x${randomBytes(20).toString('hex')}`;

const document = (changes: Partial<LimitsClaims> = {}, key = owner.privateKey) => {
  version += 1;
  return signLimits(key, { key_id: keyId, wallet, version, limits: null, ...changes });
};
const limit = (asset: string, payment: bigint | null, day: bigint | null): AssetLimit => ({
  asset,
  payment_minor: payment === null ? null : `${payment}`,
  day_minor: day === null ? null : `${day}`,
});

async function setAt(parties: readonly Party[], limits: AssetLimit[] | null): Promise<void> {
  const signed = await document({ limits });
  for (const party of parties) await setLimits(at(party), { body: { document: signed } });
}

/** A native transfer that costs so much with its fee of 1. */
const costing = (amount: bigint, nonce: number): SignPayload => ({
  kind: 'evm-transaction',
  transaction: nativeTransfer({ valueWei: `${amount - 1n}`, gas: '1', maxFeePerGasWei: '1', nonce }),
});

/** One signature, as the coordinator leads it: each step may be the last. */
class Signature {
  readonly session = randomBytes(32).toString('hex');
  private steps = 0;
  private first: LimitHold | undefined;
  private second: LimitHold | undefined;
  private news: LimitNews | undefined;
  readonly pair: readonly [Party, Party];
  readonly payload: SignPayload;
  readonly wallet: string;
  constructor(pair: readonly [Party, Party], payload: SignPayload, of: string) {
    this.pair = pair;
    this.payload = payload;
    this.wallet = of;
  }
  private hold(role: 'initiator' | 'joiner'): LimitHold {
    const [initiator, joiner] = this.pair;
    const [own, counterparty] = role === 'initiator' ? [initiator, joiner] : [joiner, initiator];
    const { session, payload } = this;
    const slot = slotOf(payload, this.wallet);
    return holdLimit(at(own), { session, keyId, wallet: this.wallet, slot, payload, role, counterparty });
  }
  /** @returns whether the signature is complete */
  async step(): Promise<boolean> {
    this.steps += 1;
    const [initiator, joiner] = this.pair;
    const overTheWire = (news: LimitNews): LimitNews => JSON.parse(JSON.stringify(news));
    switch (this.steps) {
      case 1:
        this.first = this.hold('initiator');
        this.news = overTheWire(this.first.tell());
        return false;
      case 2:
        this.second = this.hold('joiner');
        await this.second.hear(this.news);
        this.news = overTheWire(this.second.tell());
        return false;
      case 3:
        await this.first!.hear(this.news);
        at(initiator).store.transaction(() => this.first!.settle());
        this.first!.close();
        return false;
      default:
        at(joiner).store.transaction(() => this.second!.settle());
        this.second!.close();
        return true;
    }
  }
  async finish(): Promise<void> {
    while (!(await this.step()));
  }
  abort(): void {
    this.first?.close();
    this.second?.close();
  }
}
const slotOf = (payload: SignPayload, address: string) =>
  useOf({ keyId, address, payload, transactionId: 'txn', decisionId: 'dec', replaces: [] }).slot;

const pairs = PARTIES.flatMap((a) => PARTIES.filter((b) => b !== a).map((b) => [a, b] as const));

async function sign(pair: readonly [Party, Party], payload: SignPayload): Promise<void> {
  const signature = new Signature(pair, payload, wallet);
  await signature.finish().finally(() => signature.abort());
}
const refusal = (code: string, message: RegExp | string) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe('limits inside the signers', () => {
  it('are off until the owner turns them on, and again when he turns them off', async () => {
    await sign([1, 2], costing(10n ** 30n, 0));
    await setAt(PARTIES, [limit(native, 5n, null)]);
    await expect(sign([1, 2], costing(6n, 1))).rejects.toEqual(refusal('limit_exceeded', wallet));
    await setAt(PARTIES, null);
    await sign([1, 2], costing(10n ** 30n, 1));
  });

  it('count what was signed away before they were turned on', async () => {
    await sign([1, 2], costing(60n, 0));
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await expect(sign([2, 3], costing(41n, 1))).rejects.toEqual(
      refusal(
        'limit_exceeded',
        new RegExp(
          `wallet ${wallet} may pay 100 minor units of ${native} in 24 hours by the limits that the account’s owner set inside the signers \\(version \\d+\\); 60 were signed away in the last 24 hours, and this takes up to 41$`,
        ),
      ),
    );
    await sign([2, 3], costing(40n, 1));
  });

  it('let a payment through to the last unit, and say which limit is in the way of another', async () => {
    await setAt(PARTIES, [limit(native, 50n, null), limit(token, 7_500_000n, null)]);
    await sign([3, 1], costing(50n, 0));
    await expect(sign([3, 1], costing(51n, 1))).rejects.toEqual(
      refusal('limit_exceeded', /may pay 50 minor units of eip155:31337\/native at once .*takes up to 51$/),
    );
    // The fee of a token payment counts against the limit of the native coin.
    const pay = (gas: string): SignPayload => ({
      kind: 'evm-transaction',
      transaction: tokenTransfer({ nonce: 2, gas, maxFeePerGasWei: '1' }),
    });
    await expect(sign([3, 1], pay('51'))).rejects.toEqual(refusal('limit_exceeded', /native at once/));
    await sign([3, 1], pay('50'));
  });

  it('refuse what they do not list, but no fee of what they list', async () => {
    await setAt(PARTIES, [limit(token, null, 7_500_000n)]);
    await expect(sign([1, 2], costing(2n, 0))).rejects.toEqual(
      refusal('limit_exceeded', /may not pay in eip155:31337\/native: the limits .* do not list it$/),
    );
    await sign([1, 2], { kind: 'evm-transaction', transaction: tokenTransfer() });
    // What pays nobody costs its fee alone.
    await sign([1, 2], { kind: 'evm-transaction', transaction: nativeTransfer({ valueWei: '0', nonce: 1 }) });
    const again: SignPayload = { kind: 'evm-transaction', transaction: tokenTransfer({ nonce: 3 }) };
    await expect(sign([2, 3], again)).rejects.toEqual(refusal('limit_exceeded', /7500000 were signed away/));
  });

  it('take an authorisation for a payment without a fee', async () => {
    await setAt(PARTIES, [limit(token, 7n, null), limit(native, 0n, 0n)]);
    const authorize = (value: string): SignPayload => ({
      kind: 'transfer-authorization',
      authorization: {
        domain: { name: 'USD Coin', version: '2', chainId: 31337, verifyingContract: TOKEN },
        from: wallet as `0x${string}`,
        to: TOKEN,
        value,
        validAfter: 0,
        validBefore: 1,
        nonce: `0x${randomBytes(32).toString('hex')}`,
      },
    });
    await sign([1, 2], authorize('7'));
    await expect(sign([1, 2], authorize('8'))).rejects.toEqual(refusal('limit_exceeded', /at once/));
  });

  it('count a slot once, and of a replacement what it costs more', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(90n, 0));
    await sign([2, 3], costing(95n, 0));
    await sign([3, 1], costing(100n, 0));
    await expect(sign([1, 2], costing(101n, 0))).rejects.toEqual(refusal('limit_exceeded', /100 were signed away/));
    await sign([1, 2], costing(80n, 0));
    await expect(sign([1, 2], costing(1n, 1))).rejects.toEqual(refusal('limit_exceeded', /takes up to 1$/));
  });

  it('forget after 24 hours', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(100n, 0));
    nowMs += DAY_MS - 1;
    await expect(sign([3, 1], costing(1n, 1))).rejects.toEqual(refusal('limit_exceeded', /100 were signed away/));
    nowMs += 60_000;
    await sign([3, 1], costing(100n, 1));
  });

  it('forget 24 hours after the signature was complete, also where the first of the pair gave its part away before', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    const signature = new Signature([1, 2], costing(100n, 0), wallet);
    for (let step = 0; step < 3; step++) await signature.step();
    nowMs += 30_000;
    expect(await signature.step()).toBe(true);
    nowMs += DAY_MS - 1;
    // Signer 3 knows of it by signer 1 alone.
    await expect(sign([3, 1], costing(1n, 1))).rejects.toEqual(refusal('limit_exceeded', /100 were signed away/));
    nowMs += 60_000;
    await sign([3, 1], costing(100n, 1));
  });

  it('are of a wallet, or of all that have none of their own', async () => {
    const [own, other] = [wallet, newWallet()];
    await setAt(PARTIES, [limit(native, 50n, null)]);
    const all = await document({ wallet: '*', limits: [limit(native, 5n, null)] });
    for (const party of PARTIES) await setLimits(at(party), { body: { document: all } });
    await sign([1, 2], costing(50n, 0));
    wallet = other;
    await expect(sign([1, 2], costing(6n, 0))).rejects.toEqual(refusal('limit_exceeded', other));
    wallet = own;
    await setAt(PARTIES, null);
    await sign([1, 2], costing(60n, 1));
    const off = await document({ wallet: '*' });
    for (const party of PARTIES) await setLimits(at(party), { body: { document: off } });
  });

  it('are kept over a restart, with what was signed away', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(60n, 0));
    for (const party of PARTIES) {
      at(party).store.close();
      open(party);
    }
    await expect(sign([2, 1], costing(41n, 1))).rejects.toEqual(refusal('limit_exceeded', /60 were signed away/));
  });

  it('reach a signer that was away by the next one that it signs with, whoever begins', async () => {
    await setAt([1], [limit(native, null, 100n)]);
    await sign([1, 2], costing(60n, 0));
    expect(limitsInForce(at(2), { keyId, wallet })).toMatchObject({ version });
    await sign([3, 2], costing(30n, 1));
    expect(limitsInForce(at(3), { keyId, wallet })).toMatchObject({ version });
    // The one that begins without them hears of them, and of what was signed away, before it gives its part away.
    await setAt([2], [limit(native, null, 99n)]);
    await expect(sign([3, 2], costing(10n, 2))).rejects.toEqual(refusal('limit_exceeded', /may pay 99 minor units/));
    await sign([3, 2], costing(9n, 2));
  });

  it('forget what another signer told as old as it was', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(90n, 0));
    nowMs += DAY_MS / 2;
    await sign([1, 3], costing(10n, 1));
    nowMs += DAY_MS / 2 + 60_000;
    await sign([3, 2], costing(90n, 2));
  });

  it('count of a slot from before the day only what it rises', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(90n, 0));
    nowMs += DAY_MS + 60_000;
    await sign([1, 2], costing(95n, 1));
    await sign([1, 2], costing(95n, 0));
    await expect(sign([1, 2], costing(96n, 0))).rejects.toEqual(refusal('limit_exceeded', /100 were signed away/));
  });

  it('tell the other signer of each payment once', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    await sign([1, 2], costing(10n, 0));
    const told = () => {
      const payload = costing(5n, 9);
      const asked = { session: randomBytes(8).toString('hex'), keyId, wallet, slot: slotOf(payload, wallet), payload };
      const hold = holdLimit(at(1), { ...asked, role: 'initiator', counterparty: 3 });
      hold.close();
      return hold.tell().spent.length;
    };
    expect(told()).toBe(1);
    await sign([1, 3], costing(10n, 1));
    expect(told()).toBe(0);
  });

  it('stop a pair that has not the same, until both have', async () => {
    const one = await document({ limits: [limit(native, 5n, null)] });
    const two = await document({ version, limits: [limit(native, 6n, null)] });
    await setLimits(at(1), { body: { document: one } });
    await setLimits(at(2), { body: { document: two } });
    const differ = refusal('limits_differ', /have not the same limits: signer \d has older ones/);
    await expect(sign([1, 2], costing(2n, 0))).rejects.toEqual(differ);
    await expect(sign([2, 1], costing(2n, 0))).rejects.toEqual(differ);
    await setAt(PARTIES, [limit(native, 1n, 1n)]);
    await sign([2, 1], costing(1n, 0));
  });

  it('take nothing but news of limits from the other signer, and blame it for anything else', async () => {
    await setAt(PARTIES, [limit(native, 1n, 1n)]);
    const held = () => {
      const payload = costing(1n, 0);
      const at0 = { session: randomBytes(8).toString('hex'), keyId, wallet, slot: slotOf(payload, wallet), payload };
      return holdLimit(at(1), { ...at0, role: 'initiator', counterparty: 2 });
    };
    const good = held().tell();
    const spent = { slot: 's', asset: native, amount: '1', ageMs: 0 };
    for (const bad of [
      undefined,
      {},
      { ...good, more: 1 },
      { ...good, spent: [{ ...spent, amount: '-1' }] },
      { ...good, spent: [{ ...spent, ageMs: -10_000_000 }] },
      { ...good, documents: ['x', 'y', 'z'] },
    ]) {
      const hold = held();
      await expect(hold.hear(bad)).rejects.toMatchObject({ code: 'bad_message', culprit: 2 });
      hold.close();
    }
    await expect(held().hear({ ...good, documents: [] })).rejects.toEqual(refusal('limits_differ', /older ones/));
    const forged = await document({ limits: null }, (await newOwner()).privateKey);
    await expect(held().hear({ ...good, documents: [forged] })).rejects.toEqual(refusal('limits_differ', /not signed/));
  });
});

describe('the owner’s word', () => {
  const setBy = (signed: string) => setLimits(at(1), { body: { document: signed } });

  it('is believed only with his signature, in order, and for the key that it names', async () => {
    const stranger = await newOwner();
    await expect(setBy(await document({ limits: [] }, stranger.privateKey))).rejects.toEqual(
      refusal('forbidden', /not signed by the owner’s key/),
    );
    const first = await document({ limits: [] });
    const second = await document({ limits: null });
    await setBy(first);
    await setBy(second);
    await expect(setBy(first)).rejects.toEqual(refusal('limits_outdated', /is not above \d+, the limits of wallet/));
    await expect(setBy(second)).resolves.toEqual({ version });
    const sameAgain = await document({ version, limits: [] });
    version -= 1;
    await expect(setBy(sameAgain)).rejects.toEqual(refusal('limits_outdated', /is not above/));
    await expect(setBy(await document({ key_id: 'ckey_none' }))).rejects.toEqual(refusal('unknown_key', 'ckey_none'));
    for (const garbage of ['', 'a.b.c', `${first}x`, first.replace(/\.[^.]*$/, '.AAAA')]) {
      await expect(setBy(garbage)).rejects.toMatchObject({ code: expect.stringMatching(/malformed|forbidden/) });
    }
  });

  it('is taken for no other kind of document, and for no odd one', async () => {
    const change = await signOwnerKeyChange(owner.privateKey, { key_id: keyId, version: 1, owner_key: 'o'.repeat(43) });
    await expect(setBy(change)).rejects.toMatchObject({ code: 'malformed' });
    const limits = await document({ limits: [] });
    await expect(replaceOwnerKey(at(1), { body: { document: limits } })).rejects.toMatchObject({ code: 'malformed' });
    const twice = [limit(native, 1n, 1n), limit(native, 2n, 2n)];
    await expect(document({ limits: twice })).rejects.toThrow(/lists an asset twice/);
    for (const odd of [{ asset: 'eip155:1/0xAB' }, { payment_minor: '1.5' }, { day_minor: '-1' }]) {
      await expect(document({ limits: [{ ...limit(native, 1n, 1n), ...odd }] })).rejects.toThrow(/limits/);
    }
    await expect(document({ wallet: wallet.toUpperCase() })).rejects.toThrow(/wallet/);
  });

  it('is nobody’s until an operator names one, once', async () => {
    makeKey('ckey_none_yet', null);
    const signed = await document({ key_id: 'ckey_none_yet', limits: [] });
    await expect(setBy(signed)).rejects.toEqual(refusal('forbidden', /has no owner’s key/));
    const register = (ownerKey: string) => registerOwnerKey(at(1), { body: { keyId: 'ckey_none_yet', ownerKey } });
    await register(owner.publicKey);
    await register(owner.publicKey);
    await expect(register('o'.repeat(43))).rejects.toEqual(refusal('forbidden', /only a document signed by it/));
    await setBy(signed);
    await expect(registerOwnerKey(at(1), { body: { keyId: 'ckey_no', ownerKey: owner.publicKey } })).rejects.toEqual(
      refusal('unknown_key', 'ckey_no'),
    );
  });

  it('passes to another key by the word of the one before, and never back by an old document', async () => {
    makeKey('ckey_sold', owner.publicKey);
    const [second, third] = [await newOwner(), await newOwner()];
    const change = (by: CryptoKey, at: number, to: string) =>
      signOwnerKeyChange(by, { key_id: 'ckey_sold', version: at, owner_key: to });
    const replace = (signed: string) => replaceOwnerKey(at(1), { body: { document: signed } });
    const toSecond = await change(owner.privateKey, 1, second.publicKey);
    await expect(replace(await change(third.privateKey, 1, third.publicKey))).rejects.toEqual(
      refusal('forbidden', /not signed by the owner’s key of key ckey_sold/),
    );
    await replace(toSecond);
    await replace(toSecond);
    await expect(replace(await change(owner.privateKey, 2, third.publicKey))).rejects.toMatchObject({
      code: 'forbidden',
    });
    await expect(setBy(await document({ key_id: 'ckey_sold' }))).rejects.toMatchObject({ code: 'forbidden' });
    await setBy(await document({ key_id: 'ckey_sold' }, second.privateKey));
    await replace(await change(second.privateKey, 2, owner.publicKey));
    // The owner's first key speaks again: what it once signed away is not signed away again.
    const old = await change(owner.privateKey, 1, third.publicKey);
    await expect(replace(old)).rejects.toEqual(refusal('limits_outdated', /is not above 2/));
    expect(await listLimits(at(1), { body: { keyId: 'ckey_sold' } })).toMatchObject({
      ownerKey: owner.publicKey,
      ownerKeyVersion: 2,
    });
  });
});

describe('limits on Bitcoin and Tron', () => {
  const regtest = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';
  const [bitcoin, trx, usdt] = [`${regtest}/native`, `${NILE}/native`, `${NILE}/${TRON_TOKEN}`] as const;
  const testKey: TestKey = {
    keyId,
    publicKey: `0x04${PUBLIC_POINT}`,
    chainCode: `0x${'11'.repeat(32)}`,
  };
  beforeEach(() => {
    // The wallets are the same in all of these.
    nowMs += 2 * DAY_MS;
  });
  const inputsOf = ({ payload }: FamilyPayment) => familyOf(regtest).toSign(payload);
  const bitcoinOf = (changes: Partial<BitcoinTransaction> = {}) => {
    const payment = bitcoinPayment(testKey, changes);
    wallet = payment.wallet.address;
    return payment;
  };
  const tronOf = (make: typeof tronPayment, changes: Partial<TronTransaction> = {}): SignPayload => {
    const payment = make(testKey, changes);
    wallet = payment.wallet.address;
    return familyOf(NILE).toSign(payment.payload)[0]!;
  };

  it('count a Bitcoin payment with its fee, once, whichever of its inputs are signed, by whatever pairs', async () => {
    const coins = [someCoin(), someCoin(), someCoin('2000')];
    const [first, second, third] = inputsOf(bitcoinOf({ inputs: coins }));
    await setAt(PARTIES, [limit(bitcoin, 153_000n, 153_000n)]);
    await sign([1, 2], first!);
    await sign([2, 3], second!);
    await sign([3, 1], third!);
    await sign([3, 2], first!);
    const [other] = inputsOf(bitcoinOf());
    await expect(sign([1, 2], other!)).rejects.toEqual(refusal('limit_exceeded', /153000 were signed away/));
    await setAt(PARTIES, [limit(bitcoin, 152_999n, null)]);
    await expect(sign([2, 3], first!)).rejects.toEqual(refusal('limit_exceeded', /at once by .* takes up to 153000$/));
    await setAt(PARTIES, null);
  });

  it('count the inputs of one transaction once also while they are signed side by side', async () => {
    const payloads = inputsOf(bitcoinOf());
    await setAt(PARTIES, [limit(bitcoin, null, 151_000n)]);
    const running = payloads.map((payload, i) => new Signature(pairs[i]!, payload, wallet));
    for (let step = 0; step < 4; step++) for (const each of running) await each.step();
    await setAt(PARTIES, null);
  });

  it('count of what pays nobody its fee, and of a higher fee what it rises', async () => {
    const payment = bitcoinOf();
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    const [paid] = inputsOf(payment);
    const back = (valueSat: string): SignPayload => ({
      ...{ kind: 'bitcoin-input', input: 0 },
      transaction: { ...transaction, inputs: [someCoin(), someCoin()], outputs: [{ address: wallet, valueSat }] },
    });
    await setAt(PARTIES, [limit(usdt, null, 1n)]);
    await sign([1, 2], back('199000'));
    await expect(sign([1, 2], paid!)).rejects.toEqual(refusal('limit_exceeded', /the limits .* do not list it$/));
    await setAt(PARTIES, [limit(bitcoin, 1_500n, null)]);
    await sign([1, 2], back('198500'));
    await expect(sign([1, 2], back('198499'))).rejects.toEqual(refusal('limit_exceeded', /takes up to 1501$/));
    await setAt(PARTIES, null);
  });

  it('count TRX with the bandwidth, and a token by its own limit with all its fees beside it', async () => {
    const paid = tronOf(tronPayment);
    await setAt(PARTIES, [limit(trx, 6_100_000n, null), limit(usdt, 7_500_000n, 7_500_000n)]);
    await sign([1, 2], paid);
    await expect(sign([2, 3], tronOf(tronPayment, { bandwidthSun: '1100001' }))).rejects.toEqual(
      refusal('limit_exceeded', /may pay 6100000 minor units of tron:0xcd8690dc\/native at once .* 6100001$/),
    );
    await expect(sign([2, 3], tronOf(tronTokenPayment))).rejects.toEqual(
      refusal('limit_exceeded', /native at once .* takes up to 30345000$/),
    );
    await sign([2, 3], tronOf(tronTokenPayment, { feeLimitSun: '5000000' }));
    await expect(sign([3, 1], tronOf(tronTokenPayment, { feeLimitSun: '0' }))).rejects.toEqual(
      refusal('limit_exceeded', new RegExp(`${TRON_TOKEN} in 24 hours .* 7500000 were signed away`)),
    );
    await setAt(PARTIES, null);
  });

  it('name assets and wallets in their one written form alone', async () => {
    const [sat, tron] = [bitcoinOf().wallet.address, tronPayment(testKey).wallet.address];
    const evm = newWallet();
    for (const wallet of [sat, tron, evm]) await document({ wallet, limits: [limit(bitcoin, 1n, 1n)] });
    for (const wallet of [
      sat.toUpperCase(),
      tron.toLowerCase(),
      evm.toUpperCase(),
      'bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs',
    ]) {
      await expect(document({ wallet })).rejects.toThrow(/wallet must be the address/);
    }
    for (const asset of [
      `${regtest}/${sat}`,
      `${NILE}/${usdt.toLowerCase()}`,
      'tron:1/native',
      'eip155:1/T',
      `${NILE}/`,
    ]) {
      await expect(document({ limits: [limit(asset, 1n, 1n)] })).rejects.toThrow(/asset must be CHAIN/);
    }
  });
});

describe('a signer that was away', () => {
  /** Everything of one peer, as it travels. */
  async function merge(to: Party, from: Party, id: string): Promise<number> {
    let pages = 0;
    for (let after: string | null = ''; after !== null; pages++) {
      const page = limitsPageSchema.parse(JSON.parse(JSON.stringify(limitsPage(at(from), { keyId: id, after }))));
      await mergeLimits(at(to), { keyId: id, from, page });
      after = page.next;
    }
    return pages;
  }

  it('learns limits, and what was signed away in the day, from its peers', async () => {
    await setAt([1, 2], [limit(native, null, 10_000n)]);
    at(1).store.transaction(() => {
      for (let nonce = 0; nonce < 1_200; nonce++) {
        const spent = { keyId, slot: `${wallet} ${nonce}`, wallet, asset: native, knownTo: 3, atMs: nowMs };
        at(1).store.putSpending({ ...spent, amountMinor: 5n });
        // Before the day, but of a slot that rose in it.
        if (nonce === 7) at(1).store.putSpending({ ...spent, amountMinor: 2n, atMs: nowMs - 2 * DAY_MS });
        if (nonce === 8)
          at(1).store.putSpending({ ...spent, slot: `${wallet} old`, amountMinor: 9n, atMs: nowMs - 2 * DAY_MS });
      }
    });
    expect(await merge(3, 1, keyId)).toBeGreaterThan(1);
    await merge(3, 2, keyId);
    const spent = at(3).store.spendingSince({ wallet, asset: native, slot: '', sinceMs: nowMs - DAY_MS });
    expect(spentInDay(spent, nowMs)).toBe(5_998n);
    expect(spent).toHaveLength(1_201);
    expect(limitsInForce(at(3), { keyId, wallet })).toMatchObject({ version });
    expect(at(3).store.spendingSince({ wallet, asset: native, slot: `${wallet} old`, sinceMs: nowMs })).toEqual([]);
  });

  it('follows the owner’s key, and refuses what it cannot verify', async () => {
    const id = 'ckey_away';
    makeKey(id, owner.publicKey);
    const [second, third] = [await newOwner(), await newOwner()];
    const replace = async (by: CryptoKey, at: number, to: string, parties: Party[]) => {
      const signed = await signOwnerKeyChange(by, { key_id: id, version: at, owner_key: to });
      for (const party of parties) await replaceOwnerKey(signers.get(party)!, { body: { document: signed } });
    };
    await replace(owner.privateKey, 1, second.publicKey, [1, 2]);
    await replace(second.privateKey, 2, third.publicKey, [1, 2]);
    const limits = await document({ key_id: id, limits: [] }, third.privateKey);
    await setLimits(at(1), { body: { document: limits } });
    await merge(3, 1, id);
    expect(at(3).store.ownerKeyOf(id)).toBe(third.publicKey);
    expect(limitsInForce(at(3), { keyId: id, wallet })).toMatchObject({ version });
    // A peer's bare word counts for nothing.
    const page = limitsPage(at(1), { keyId: id, after: '' });
    const lie = { ...page, ownerKey: owner.publicKey, ownerKeyChanges: [] };
    await expect(mergeLimits(at(3), { keyId: id, from: 1, page: lie })).rejects.toMatchObject({
      code: 'limits_differ',
    });
    const forged = { ...page, limits: [await document({ key_id: id, limits: null }, owner.privateKey)] };
    await expect(mergeLimits(at(3), { keyId: id, from: 1, page: forged })).rejects.toEqual(
      refusal('limits_differ', /not signed by the owner’s key/),
    );
    expect(limitsInForce(at(3), { keyId: id, wallet })).toMatchObject({ limits: [] });
  });
});

describe('a day’s limit over three pairs', () => {
  it('holds when three signatures by three pairs run side by side, in a ring', async () => {
    await setAt(PARTIES, [limit(native, null, 100n)]);
    const ring = (
      [
        [1, 2],
        [2, 3],
        [3, 1],
      ] as const
    ).map((pair, nonce) => new Signature(pair, costing(50n, nonce), wallet));
    for (const each of ring) await each.step();
    for (const each of ring) await each.step();
    const results = [];
    for (const each of ring)
      results.push(
        await each.step().then(
          () => 'passed',
          (error) => error.code,
        ),
      );
    expect(results.filter((result) => result === 'passed').length).toBeLessThanOrEqual(2);
    expect(new Set(results)).toEqual(new Set(results.includes('passed') ? ['passed', 'busy'] : ['busy']));
    for (const each of ring) each.abort();
    await sign([1, 2], costing(50n, 7));
  });

  it('is not exceeded by one unit, whatever a coordinator does with honest signers', { timeout: 120_000 }, async () => {
    const dayMinor = 100n;
    const action = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ open: fc.constantFrom(...pairs), amount: fc.bigInt(1n, 70n), nonce: fc.nat(12) }),
      },
      { weight: 9, arbitrary: fc.record({ advance: fc.nat(100) }) },
      { weight: 1, arbitrary: fc.record({ abort: fc.nat(100) }) },
      { weight: 1, arbitrary: fc.record({ restart: fc.constantFrom(...PARTIES) }) },
      { weight: 1, arbitrary: fc.record({ waitMs: fc.integer({ min: 1, max: DAY_MS / 3 }) }) },
    );
    let passed = 0;
    const refused = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 20, maxLength: 60 }), async (actions) => {
        wallet = newWallet();
        await setAt(PARTIES, [limit(native, null, dayMinor)]);
        const signed: Level[] = [];
        let running: Signature[] = [];
        const end = (signature: Signature) => {
          signature.abort();
          running = running.filter((each) => each !== signature);
        };
        for (const each of actions) {
          if ('open' in each) running.push(new Signature(each.open, costing(each.amount, each.nonce), wallet));
          if ('abort' in each && running.length > 0) end(running[each.abort % running.length]!);
          if ('restart' in each) {
            // What was in memory is gone, and so are the sessions.
            for (const run of running.filter(({ pair }) => pair.includes(each.restart))) end(run);
            (at(each.restart) as { holds: unknown }).holds = createHoldTable();
          }
          if ('waitMs' in each) {
            nowMs += each.waitMs;
            if (each.waitMs > 30_000) for (const run of running) end(run); // no session lives as long
          }
          if (!('advance' in each) || running.length === 0) continue;
          const signature = running[each.advance % running.length]!;
          try {
            if (!(await signature.step())) continue;
            passed += 1;
            const { transaction } = signature.payload as { transaction: { valueWei: string; nonce: number } };
            signed.push({ slot: `${transaction.nonce}`, amountMinor: BigInt(transaction.valueWei) + 1n, atMs: nowMs });
          } catch (error) {
            const { code } = error as { code: string };
            refused.set(code, (refused.get(code) ?? 0) + 1);
          }
          end(signature);
          expect(spentInDay(signed, nowMs) <= dayMinor).toBe(true);
        }
        for (const run of running) end(run);
      }),
      { numRuns: 120 },
    );
    expect(passed).toBeGreaterThan(100);
    expect([...refused.keys()].toSorted()).toEqual(['busy', 'limit_exceeded']);
  });

  it('is known to the unit by whoever asks one after another', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ pair: fc.constantFrom(...pairs), amount: fc.bigInt(1n, 60n) }), {
          minLength: 3,
          maxLength: 12,
        }),
        async (asks) => {
          wallet = newWallet();
          await setAt(PARTIES, [limit(native, null, 100n)]);
          let spent = 0n;
          for (const [nonce, { pair, amount }] of asks.entries()) {
            const fits = spent + amount <= 100n;
            const outcome = await sign(pair, costing(amount, nonce)).then(
              () => true,
              () => false,
            );
            expect(outcome).toBe(fits);
            if (fits) spent += amount;
          }
        },
      ),
      { numRuns: 30 },
    );
  });
});
