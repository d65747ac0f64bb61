import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SignPayload } from '../../../shared/domain/receipt.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { useOf } from '../../../signer/slot.ts';
import { openSignerStore, type SignerStore } from '../../../signer/store.ts';
import { nativeTransfer, RECIPIENT, TOKEN } from '../../support/payments.ts';

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
const use = (transactionId: string, payload: SignPayload, replaces: string[] = []) =>
  useOf({ keyId: 'key', address: WALLET, transactionId, decisionId: 'dec', replaces, payload });

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
      return { transactionId, slot, intent, validBefore, decisionId: 'dec', atMs };
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
    expect(() => bind('txn_3', authorise('bb', 2))).not.toThrow();
    expect(store.mergePayments({ keyId, rows: [row('txn_3', send(9), later)] })).toEqual(['txn_3']);
    expect(() => bind('txn_3', authorise('bb', 2))).toThrow(/is not signed any more/);
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
