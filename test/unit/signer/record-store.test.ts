import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BitcoinTransaction, SignPayload } from '../../../shared/domain/receipt.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { useOf } from '../../../signer/slot.ts';
import { openSignerStore, type SignerStore } from '../../../signer/store.ts';
import { BITCOIN_RECIPIENT, REGTEST } from '../../support/family-payments.ts';
import { nativeTransfer, RECIPIENT, TOKEN } from '../../support/payments.ts';

const BITCOIN_WALLET = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080';
const WALLET = '0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266';
const OTHER = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';
const now = new Date('2026-03-01T00:00:00Z');
const slotTaken = expect.objectContaining({ code: 'slot_taken' });

const send = (nonce: number, changes: object = {}): SignPayload => ({
  kind: 'evm-transaction',
  transaction: nativeTransfer({ nonce, ...changes }),
});
const noop = (nonce: number) => send(nonce, { to: WALLET, valueWei: '0' });
const authorise = (nonce: string, validBefore: number): SignPayload => ({
  kind: 'transfer-authorization',
  authorization: {
    domain: { name: 'USD Coin', version: '2', chainId: 31337, verifyingContract: TOKEN },
    ...{ from: WALLET, to: RECIPIENT, value: '5', validAfter: 0, validBefore, nonce: `0x${nonce.repeat(32)}` },
  },
});
type Coin = BitcoinTransaction['inputs'][0];
const coin = (name: string): Coin => ({ txid: name.repeat(64), vout: 0, valueSat: '1000' });
const [A, B, C, D] = [coin('a'), coin('b'), coin('c'), coin('d')];
const TRON_WALLET = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
/** 5 sat to BITCOIN_RECIPIENT, the change to the wallet. */
const spend = (
  inputs: Coin[],
  o: { input?: number; amountSat?: string; changeSat?: string; isNoop?: boolean } = {},
): SignPayload => ({
  kind: 'bitcoin-input',
  input: o.input ?? 0,
  transaction: {
    ...{ chain: REGTEST, inputs, lockTime: 0 },
    outputs: [
      ...(o.isNoop ? [] : [{ address: BITCOIN_RECIPIENT, valueSat: o.amountSat ?? '5' }]),
      { address: BITCOIN_WALLET, valueSat: o.changeSat ?? '7' },
    ],
  },
});
const addressOf = {
  'evm-transaction': WALLET,
  'transfer-authorization': WALLET,
  'bitcoin-input': BITCOIN_WALLET,
  'tron-transaction': TRON_WALLET,
};
const use = (transactionId: string, payload: SignPayload, replaces: string[] = []) =>
  useOf({ keyId: 'key', address: addressOf[payload.kind], transactionId, decisionId: 'dec', replaces, payload });

describe('what a signature is recorded as', () => {
  it('says which slot it takes and what it pays, whatever the case of its letters', () => {
    expect(use('t', send(7, { chainId: 1 }))).toMatchObject({
      slot: 'eip155:1/0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266/nonce/7',
      intent: 'native/0x70997970c51812dc3a010c7d01b50e0d17dc79c8/5000000000000000000',
      validBefore: null,
    });
    expect(use('t', authorise('aB', 99))).toMatchObject({
      slot: `eip155:31337/${TOKEN.toLowerCase()}/${WALLET.toLowerCase()}/auth/0x${'ab'.repeat(32)}`,
      intent: `${TOKEN.toLowerCase()}/${RECIPIENT.toLowerCase()}/5`,
      validBefore: 99,
    });
  });

  it('pays nobody only as a transfer of nothing of the native coin to the wallet itself', () => {
    expect(use('t', noop(7)).intent).toBe('');
    for (const changes of [
      { to: OTHER, valueWei: '0' },
      { to: WALLET, valueWei: '1' },
    ])
      expect(use('t', send(7, changes)).intent).not.toBe('');
  });
});

describe('the records of a signer', () => {
  let dataDir = '';
  let store: SignerStore;
  const open = () => {
    store = openSignerStore({
      ...{ dataDir, party: 1, engineVersion: 'v1', now: () => now },
      keyEncryption: createKeyEncryption([createKek(randomBytes(32))]),
    });
  };
  const bind = (...asked: Parameters<typeof use>) => store.transaction(() => store.bindUse(use(...asked)));
  const reopen = () => {
    store.close();
    open();
  };

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'purser-records-'));
    open();
  });
  afterEach(() => {
    store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('hold a slot to one payment, and a payment to one slot, also after a restart', () => {
    bind('txn_1', send(7));
    reopen();
    expect(() => bind('txn_1', send(7, { maxFeePerGasWei: '1' }))).not.toThrow();
    expect(() => bind('txn_1', send(7, { valueWei: '4' }))).toThrow(slotTaken);
    expect(() => bind('txn_2', send(7))).toThrow(slotTaken);
    expect(() => bind('txn_1', send(8))).toThrow(slotTaken);
    expect(() => bind('txn_1', noop(7))).not.toThrow();
    expect(() => bind('txn_1', send(7))).not.toThrow();
    expect(() => bind('txn_2', send(8))).not.toThrow();
  });

  it('give a slot that was used up first to no payment, and leave the payment its slot', () => {
    bind('txn_1', noop(7));
    expect(() => bind('txn_1', send(7))).toThrow(slotTaken);
    expect(() => bind('txn_1', send(8))).not.toThrow();
  });

  it('move a payment as its receipt says, once, and sign it nowhere else', () => {
    const [first, second] = [use('t', authorise('aa', 1)).slot, use('t', authorise('bb', 2)).slot];
    bind('txn_1', authorise('aa', 1));
    expect(() => bind('txn_1', authorise('bb', 2))).toThrow(slotTaken);
    bind('txn_1', authorise('bb', 2), [first]);
    expect(() => bind('txn_1', authorise('aa', 1))).toThrow(slotTaken);
    expect(() => bind('txn_1', authorise('cc', 3), [first])).toThrow(slotTaken);
    bind('txn_1', authorise('cc', now.getTime() / 1000 + 1), [first, second]);
    const third = use('t', authorise('cc', 3)).slot;
    expect(() => bind('txn_1', authorise('dd', 9e9), [third])).toThrow(/good until 2026-03-01T00:00:01/);
  });

  it('keep nothing of a use whose transaction is undone', () => {
    const undone = () =>
      store.transaction(() => {
        store.bindUse(use('txn_1', send(7)));
        throw new Error('the log is full');
      });
    expect(undone).toThrow('the log is full');
    expect(() => bind('txn_2', send(7))).not.toThrow();
    expect(() => bind('txn_1', send(8))).not.toThrow();
  });

  it('end a payment only where neither it nor its slot is recorded, and sign it nowhere then', () => {
    const end = (transactionId: string, payload: SignPayload) => {
      const { keyId, slot } = use(transactionId, payload);
      return store.endUnsigned({ keyId, slot, transactionId });
    };
    bind('txn_1', send(7));
    bind('txn_2', noop(8));
    expect([end('txn_1', send(7)), end('txn_1', send(9)), end('txn_3', send(7)), end('txn_3', send(8))]).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect([end('txn_4', send(9)), end('txn_4', send(9))]).toEqual([true, true]);
    reopen();
    for (const nonce of [9, 10]) expect(() => bind('txn_4', send(nonce))).toThrow(/ended before it was signed/);
    expect(() => bind('txn_3', send(9))).not.toThrow();
    expect(end('txn_4', send(9))).toBe(false);
  });

  it('sign at neither side of what two signers recorded differently, and take the newer slot of a payment', () => {
    const keyId = 'key';
    const row = (transactionId: string, payload: SignPayload, atMs: number) => {
      const { slot, intent, validBefore } = use(transactionId, payload);
      return { transactionId, slot, intent, validBefore, decisionId: 'dec', others: [], atMs };
    };
    bind('txn_1', send(7));
    bind('txn_2', noop(8));
    bind('txn_3', authorise('aa', 1));
    const slotRow = (...asked: Parameters<typeof row>) => {
      const { slot, intent, transactionId, atMs } = row(...asked);
      return { slot, intent, transactionId, valueSat: null, atMs };
    };
    const rows = [slotRow('txn_x', send(7), 1), slotRow('txn_4', send(8), 1), slotRow('txn_1', noop(7), 1)];
    expect(store.mergeSlots({ keyId, rows })).toEqual([use('t', send(7)).slot]);
    for (const id of ['txn_1', 'txn_x']) expect(() => bind(id, send(7))).toThrow(slotTaken);
    expect(() => bind('txn_4', send(8))).not.toThrow();
    const later = now.getTime() + 1;
    expect(store.mergePayments({ keyId, rows: [row('txn_3', authorise('bb', 2), later)] })).toEqual([]);
    expect(store.mergePayments({ keyId, rows: [row('txn_3', authorise('cc', 2), 1)] })).toEqual([]);
    expect(() => bind('txn_3', authorise('aa', 1))).toThrow(slotTaken);
    // Nobody here saw which one was given up: the receipt has to say so of each.
    const [aa, cc] = [use('txn_3', authorise('aa', 1)).slot, use('txn_3', authorise('cc', 2)).slot];
    for (const named of [[], [aa], [cc]]) expect(() => bind('txn_3', authorise('bb', 2), named)).toThrow(/must say/);
    expect(() => bind('txn_3', authorise('bb', 2), [aa, cc])).not.toThrow();
    const { rows: told } = store.paymentsPage({ keyId, after: 0, limit: 9 });
    expect(told.find(({ transactionId }) => transactionId === 'txn_3')).toMatchObject({
      others: [
        { slot: aa, validBefore: 1 },
        { slot: cc, validBefore: 2 },
      ],
    });
    expect(store.mergePayments({ keyId, rows: [row('txn_3', send(9), later)] })).toEqual(['txn_3']);
    expect(() => bind('txn_3', authorise('bb', 2))).toThrow(/is not signed any more/);
  });

  it('hold every coin of a transaction to one payment and one value, whichever of its inputs is signed', () => {
    bind('txn_1', spend([A, B], { input: 1 }));
    reopen();
    expect(() => bind('txn_1', spend([A, B], { changeSat: '1' }))).not.toThrow();
    expect(() => bind('txn_1', spend([A]))).not.toThrow();
    expect(() => bind('txn_1', spend([A, C]))).not.toThrow();
    for (const coins of [[A], [B], [C], [D, B], [D, C], [B, D]]) {
      expect(() => bind('txn_2', spend(coins))).toThrow(slotTaken);
    }
    expect(() => bind('txn_1', spend([B, A]))).toThrow(/must say that it replaces/);
    expect(() => bind('txn_1', spend([A, B], { amountSat: '6' }))).toThrow(slotTaken);
    expect(() => bind('txn_2', spend([D]))).not.toThrow();
    const lies = [
      { ...B, valueSat: '999' },
      { ...B, valueSat: '1001' },
    ];
    for (const lie of lies) {
      expect(() => bind('txn_1', spend([A, lie]))).toThrow(/was used as a coin of 1000 sat; it cannot be one of/);
      expect(() => bind('txn_1', spend([A, lie], { isNoop: true }))).toThrow(/it cannot be one of/);
      expect(() => bind('txn_9', spend([lie], { isNoop: true }))).toThrow(/it cannot be one of/);
    }
    expect(() => bind('txn_1', spend([A, B], { isNoop: true }))).not.toThrow();
  });

  it('hold coins of what pays nobody to their values as well, and give them to no payment', () => {
    bind('txn_1', spend([A, B], { isNoop: true }));
    expect(() => bind('txn_1', spend([A, { ...B, valueSat: '1' }], { isNoop: true }))).toThrow(
      /cannot be one of 1 sat/,
    );
    expect(() => bind('txn_1', spend([A, B]))).toThrow(/was used to pay nobody/);
    expect(() => bind('txn_2', spend([C, B]))).toThrow(/was used to pay nobody/);
    expect(() => bind('txn_1', spend([C]))).not.toThrow();
  });

  it('end a payment whose coins nobody signed for, by its anchor', () => {
    const end = (transactionId: string, coins: Coin[]) =>
      store.endUnsigned({ keyId: 'key', transactionId, slot: use(transactionId, spend(coins)).slot });
    expect(end('txn_1', [A, B])).toBe(true);
    for (const coins of [[A, B], [B], [C]]) expect(() => bind('txn_1', spend(coins))).toThrow(/ended before it was/);
    bind('txn_2', spend([B, A]));
    expect([end('txn_2', [B, A]), end('txn_3', [A]), end('txn_3', [C])]).toEqual([false, false, true]);
  });

  it('move a payment that expires only when it is over, by a receipt that names it', () => {
    const send = (ref: string, expirationMs: number): SignPayload => ({
      kind: 'tron-transaction',
      transaction: {
        ...{ chain: 'tron:0xcd8690dc', from: TRON_WALLET, refBlockBytes: ref, refBlockHash: '00'.repeat(8) },
        contract: { type: 'transfer', to: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', amountSun: '5' },
        ...{ timestampMs: 1, expirationMs, feeLimitSun: '0', bandwidthSun: '0' },
      },
    });
    const nowMs = now.getTime();
    const [over, good] = [send('0001', nowMs), send('0002', nowMs + 1)];
    expect(use('t', good)).toMatchObject({
      validBefore: nowMs / 1000 + 1,
      intent: expect.stringMatching(/^native\/TJRa.*\/5$/),
    });
    expect(use('t', good).slot).toMatch(/^tron:0xcd8690dc\/TR7NHq.*\/transaction\/[0-9a-f]{64}$/);
    bind('txn_1', over);
    expect(() => bind('txn_1', good)).toThrow(/must say that it replaces/);
    bind('txn_1', good, [use('t', over).slot]);
    expect(() => bind('txn_1', send('0003', nowMs + 9), [use('t', good).slot])).toThrow(
      /good until 2026-03-01T00:00:01/,
    );
    expect(() => bind('txn_2', good)).toThrow(slotTaken);
  });

  it('sign nothing any more by a coin of which two signers recorded different values', () => {
    const keyId = 'key';
    bind('txn_1', spend([A, B]));
    const pages = store.slotsPage({ keyId, after: 0, limit: 9 }).rows;
    expect(pages.map(({ valueSat }) => valueSat)).toEqual(['1000', '1000']);
    expect(store.mergeSlots({ keyId, rows: pages })).toEqual([]);
    const [a, b] = pages as [(typeof pages)[0], (typeof pages)[0]];
    expect(store.mergeSlots({ keyId, rows: [a, { ...b, valueSat: '7' }] })).toEqual([b.slot]);
    expect(store.mergeSlots({ keyId, rows: [b, { ...b, valueSat: '7' }] })).toEqual([b.slot, b.slot]);
    for (const valueSat of ['1000', '7']) {
      expect(() => bind('txn_1', spend([A, { ...B, valueSat }]))).toThrow(slotTaken);
      expect(() => bind('txn_1', spend([A, { ...B, valueSat }], { isNoop: true }))).toThrow(slotTaken);
    }
    expect(() => bind('txn_1', spend([A]))).not.toThrow();
    // What another one tells of is known with its value.
    const told = { slot: use('t', spend([C])).slot, intent: '', transactionId: 'txn_9', valueSat: '50', atMs: 1 };
    expect(store.mergeSlots({ keyId, rows: [told] })).toEqual([]);
    expect(() => bind('txn_9', spend([C], { isNoop: true }))).toThrow(/was used as a coin of 50 sat/);
    expect(() => bind('txn_9', spend([{ ...C, valueSat: '50' }], { isNoop: true }))).not.toThrow();
  });

  it('are brought up to date from a store that knew no coins, with all that it held', () => {
    bind('txn_1', send(7));
    store.close();
    const db = new DatabaseSync(join(dataDir, 'signer.sqlite'));
    db.exec(
      `alter table slots drop column value_sat; alter table payments drop column others; drop index signing_log_by_payment;
       drop table freeze_order; drop table operator_freeze; pragma user_version = 2`,
    );
    db.close();
    open();
    expect(store.schemaVersion()).toBe(5);
    expect(() => bind('txn_1', send(7, { maxFeePerGasWei: '1' }))).not.toThrow();
    expect(() => bind('txn_2', send(7))).toThrow(slotTaken);
    expect(() => bind('txn_3', spend([A, B]))).not.toThrow();
    reopen();
    expect(() => bind('txn_4', spend([B]))).toThrow(slotTaken);
    expect([...store.dumpTables({ sinceMs: undefined })].find(({ table }) => table === 'slots')?.rows).toMatchObject([
      { value_sat: null },
      { value_sat: '1000' },
      { value_sat: '1000' },
    ]);
  });

  it('check without binding', () => {
    store.checkUse(use('txn_1', send(7)));
    expect(() => bind('txn_2', send(7))).not.toThrow();
    expect(() => store.checkUse(use('txn_1', send(7)))).toThrow(slotTaken);
  });

  it('keep a signature that was seen or told, of those in which this signer took part', () => {
    const id = { address: WALLET, digest: randomBytes(32) };
    const signature = randomBytes(65);
    store.learnSignature({ ...id, signature });
    expect(store.findSignature(id)).toBeUndefined();
    store.noteSignature({ ...id, keyId: 'key', signature: null });
    expect(store.findSignature(id)).toBeUndefined();
    store.learnSignature({ ...id, address: WALLET.toLowerCase(), signature });
    store.learnSignature({ ...id, signature: randomBytes(65) });
    store.noteSignature({ ...id, keyId: 'key', signature: randomBytes(65) });
    reopen();
    expect(Buffer.from(store.findSignature(id)!)).toEqual(signature);
    expect(store.findSignature({ ...id, address: OTHER })).toBeUndefined();
    expect(store.findSignature({ ...id, digest: randomBytes(32) })).toBeUndefined();
  });

  it('are made from the log of a store that had none, the newest payment of a nonce counting', () => {
    const log = (transactionId: string, payload: SignPayload, signature: Uint8Array | null = null) => {
      const digest = createHash('sha256').update(JSON.stringify(payload)).digest();
      store.appendSigningLog({
        ...{ sessionId: 's', counterparty: 2, keyId: 'key', epoch: 1, path: 'm', address: WALLET, decisionId: 'dec' },
        ...{ transactionId, receipt: '', payload: JSON.stringify(payload), digest, signature },
      });
      return { address: WALLET, digest };
    };
    const seen = randomBytes(65);
    log('txn_1', send(7));
    log('txn_2', send(7, { valueWei: '1' }));
    log('txn_2', noop(7));
    log('txn_3', noop(8));
    log('txn_4', authorise('aa', 1));
    log('txn_4', authorise('bb', 2));
    const id = log('txn_5', send(9), seen);
    reopen();
    expect(() => bind('txn_2', send(7, { valueWei: '1' }))).not.toThrow();
    expect(() => bind('txn_1', send(7))).toThrow(slotTaken);
    expect(() => bind('txn_3', send(8))).toThrow(slotTaken);
    expect(() => bind('txn_4', authorise('aa', 1))).toThrow(slotTaken);
    expect(() => bind('txn_4', authorise('bb', 2))).not.toThrow();
    expect(Buffer.from(store.findSignature(id)!)).toEqual(seen);
    bind('txn_6', send(10));
    log('txn_7', send(10));
    reopen(); // with records there is nothing to be made
    expect(() => bind('txn_6', send(10))).not.toThrow();
  });
});
