import { randomUUID } from 'node:crypto';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createListSigned, createReadSigned, type SignedPayment } from '../../../activities/list-signed.ts';
import { createRestorePayments } from '../../../activities/restore-payments.ts';
import { createRegistry } from '../../../shared/chain/registry.ts';
import { findAttempts } from '../../../shared/db/attempts.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { findMismatches } from '../../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { findSlot, insertSlot } from '../../../shared/db/slots.ts';
import { failTransaction, getTransaction, insertTransaction, storeDecision } from '../../../shared/db/transactions.ts';
import { getX402Payment } from '../../../shared/db/x402-payments.ts';
import type { BitcoinTransaction, PolicyReceipt, SignPayload } from '../../../shared/domain/receipt.ts';
import type { RestoreFinding } from '../../../shared/domain/restore.ts';
import { signReceipt } from '../../../shared/receipt.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import {
  bitcoinPayment,
  type FamilyPayment,
  NILE,
  REGTEST,
  requestsFor,
  someCoin,
  TRON_TOKEN,
  tronPayment,
  tronTokenPayment,
  walletOf,
} from '../../support/family-payments.ts';
import { nativeTransfer, RECIPIENT, type TestKey, TOKEN } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 300_000 });

const LOCAL = 'eip155:31337';
const registry = createRegistry({
  environment: 'sandbox',
  enabled: [LOCAL, REGTEST, NILE],
  extraTokens: [
    { chain: LOCAL, symbol: 'USDC', decimals: 6, asset: TOKEN, domain: { name: 'USD Coin', version: '2' } },
    { chain: NILE, symbol: 'USDT', decimals: 6, asset: TRON_TOKEN },
  ],
});

let signers: TestSigners;
let signer: SignerClient;
let key: TestKey;
let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  signers = await startSigners();
  signer = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
  key = await signer.generateKey({ keyId: 'ckey_main' });
});
afterAll(async () => {
  signer?.close();
  await signers?.stop();
});
/** Everything is lost. */
beforeEach(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  return async () => {
    await pool.end();
    await database.drop();
  };
});

const newPaymentId = (kind = 'tx') => `${kind}_${randomUUID()}`;
/** Has the signers sign a payment of this family. @param parts of what is to be signed for it, how much they come to */
async function sign(payment: FamilyPayment, { id = newPaymentId(), parts = Number.POSITIVE_INFINITY } = {}) {
  const requests = await requestsFor({ ...payment, transactionId: id }, { policyKey: signers.policyKey });
  for (const request of requests.slice(0, parts)) await signer.sign(request);
  return id;
}
/** Has the signers sign something of the wallet on the local chain. */
async function signEvm(p: { id: string; intent: Partial<PolicyReceipt['intent']>; payload: SignPayload }) {
  const wallet = walletOf(key, LOCAL);
  const now = Math.floor(Date.now() / 1000);
  const { key_id: keyId, path, address } = wallet;
  const receipt = await signReceipt(signers.policyKey, {
    ...{ account_id: 'acct_1', agent_id: 'agent_1', wallet, transaction_id: p.id, decision_id: 'dec_1' },
    intent: {
      ...{ chain: LOCAL, asset: 'native', to: RECIPIENT, amount_minor: '5000000000000000000' },
      ...{ max_fee_minor: '1000000000000000', ...p.intent },
    },
    ...{ iat: now, exp: now + 60 },
  });
  return signer.sign({ keyId, path, address, payload: p.payload, receipt });
}
const transferOf = (transaction = nativeTransfer()) => ({ kind: 'evm-transaction' as const, transaction });

const inActivity = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
const read = (
  ids: readonly string[],
  from = signer,
): Promise<Awaited<ReturnType<ReturnType<typeof createReadSigned>>>> =>
  inActivity.run(createReadSigned({ signer: from }), ids);
async function restore(ids: readonly string[], { dryRun = false, laterMs = 0 } = {}): Promise<RestoreFinding[]> {
  const clock: typeof databaseClock = async (db) => new Date((await databaseClock(db)).getTime() + laterMs);
  const restorePayments = createRestorePayments({ pool, registry, clock });
  return inActivity.run(restorePayments, { ...(await read(ids)), dryRun });
}
const kinds = (found: readonly RestoreFinding[]) => found.map(({ what }) => what);
const rows = async (table: string) => (await pool.query(`select count(*)::int as n from ${table}`)).rows[0].n;

/** As if the database had been given the payment and nothing more. */
async function know({ id, accountId, agentId, things }: SignedPayment): Promise<void> {
  const { rows: wallets } = await pool.query('select id, address from wallets where agent_id = $1', [agentId]);
  const { intent } = things[0]!;
  await insertTransaction(pool, {
    ...{ id, accountId, agentId, walletId: wallets[0].id, chain: intent.chain, token: 'ETH', asset: intent.asset },
    ...{ decimals: 18, amountMinor: BigInt(intent.amount_minor), memo: 'mine' },
    ...{ fromAddress: wallets[0].address, toAddress: intent.to },
  });
}

describe('what the signers signed is stored again, once', () => {
  it('with account, key, agent, place, bytes, hold and limit', async () => {
    const id = newPaymentId();
    await signEvm({ id, intent: {}, payload: transferOf() });
    const found = await restore([id]);
    expect(kinds(found)).toEqual(['account_recreated', 'agent_recreated', 'payment_recreated']);
    expect(await getTransaction(pool, { id })).toMatchObject({
      ...{ status: 'pending', status_detail: 'broadcast', token: 'ETH', amount_minor: '5000000000000000000' },
      ...{ account_id: 'acct_1', agent_id: 'agent_1', to_address: RECIPIENT, decision_id: 'dec_1' },
    });
    const [attempt] = await findAttempts(pool, { transactionId: id });
    expect(attempt).toMatchObject({ purpose: 'payment', version: 1 });
    const before = await rows('events');
    expect(await restore([id])).toEqual([]);
    expect(await rows('events')).toBe(before);
    expect(await findMismatches(pool)).toEqual([]);
    const agent = await pool.query(`select status, agent_name from agents where id = 'agent_1'`);
    expect(agent.rows).toEqual([{ status: 'inactive', agent_name: 'Restored agent_1' }]);
    const owner = await pool.query('select account_id, next_index from account_keys');
    expect(owner.rows).toEqual([{ account_id: 'acct_1', next_index: 8 }]);
  });

  it.each([
    ['Bitcoin', () => bitcoinPayment(key), { token: 'BTC', coins: 2, amount: '150000' }],
    ['Tron', () => tronPayment(key), { token: 'TRX', coins: 0, amount: '5000000' }],
    ['a token on Tron', () => tronTokenPayment(key), { token: 'USDT', coins: 0, amount: '7500000' }],
  ])('for %s', async (_, payment, { token, coins, amount }) => {
    const id = await sign(payment());
    expect(kinds(await restore([id], { dryRun: true }))).toContain('payment_recreated');
    expect([await rows('transactions'), await rows('accounts')]).toEqual([0, 0]);
    expect(kinds(await restore([id]))).toContain('payment_recreated');
    expect(await restore([id])).toEqual([]);
    expect(await getTransaction(pool, { id })).toMatchObject({
      status_detail: 'broadcast',
      token,
      amount_minor: amount,
    });
    expect((await findAttempts(pool, { transactionId: id })).map(({ version }) => version)).toEqual([1]);
    expect(await rows('coins')).toBe(coins);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('for a payment that was sped up and then cancelled: each version once, in their order', async () => {
    const id = newPaymentId();
    const transaction = nativeTransfer();
    const dearer = { ...transaction, maxFeePerGasWei: '3000000000', maxPriorityFeePerGasWei: '2000000000' };
    const { address } = walletOf(key, LOCAL);
    const nothing = { ...transaction, to: address as `0x${string}`, valueWei: '0', maxFeePerGasWei: '4000000000' };
    await signEvm({ id, intent: {}, payload: transferOf(transaction) });
    await signEvm({ id, intent: {}, payload: transferOf(dearer) });
    await signEvm({ id, intent: { to: address, amount_minor: '0' }, payload: transferOf(nothing) });
    await restore([id]);
    const attempts = await findAttempts(pool, { transactionId: id });
    const told = attempts.map(({ version, purpose }) => `${version} ${purpose}`).toSorted();
    expect(told).toEqual(['1 payment', '2 payment', '3 noop']);
    expect(await findSlot(pool, { transactionId: id })).toMatchObject({
      ...{ version: 3, purpose: 'cancel', end_code: 'cancelled', nonce: String(transaction.nonce) },
    });
    // The newest of them is lost again.
    await pool.query(`delete from attempts where transaction_id = $1 and purpose = 'noop'`, [id]);
    await pool.query(`update slots set version = 2, purpose = 'payment', payload = $2 where transaction_id = $1`, [
      id,
      transferOf(dearer),
    ]);
    expect(kinds(await restore([id]))).toEqual(['payment_completed']);
    expect((await findAttempts(pool, { transactionId: id })).map(({ version }) => version).toSorted()).toEqual([
      1, 2, 3,
    ]);
    expect(await findSlot(pool, { transactionId: id })).toMatchObject({ version: 3, purpose: 'cancel' });
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('takes its nonce from a payment that was given it and of which nothing was signed', async () => {
    const first = newPaymentId();
    await signEvm({ id: first, intent: {}, payload: transferOf() });
    await restore([first]);
    const id = newPaymentId();
    const payload = transferOf();
    await signEvm({ id, intent: {}, payload });
    const [signed] = (await read([id])).payments;
    const other = newPaymentId();
    await know({ ...signed!, id: other });
    const { wallet_id: walletId } = (await getTransaction(pool, { id: other }))!;
    await insertSlot(pool, {
      ...{ walletId, chain: LOCAL, nonce: payload.transaction.nonce, transactionId: other },
      payload: transferOf({ ...payload.transaction, valueWei: '1' }),
    });
    expect(kinds(await restore([id]))).toEqual(['place_given_up', 'payment_recreated']);
    expect(await findSlot(pool, { transactionId: other })).toBeUndefined();
    expect(await getTransaction(pool, { id: other })).toMatchObject({ nonce: null, status: 'pending' });
    expect(await findSlot(pool, { transactionId: id })).toMatchObject({ nonce: String(payload.transaction.nonce) });
  });

  it('keeps what the database knows of a payment, and leaves to a person one that it holds for failed', async () => {
    const first = newPaymentId();
    await signEvm({ id: first, intent: {}, payload: transferOf() });
    await restore([first]);
    const [known, ended] = [newPaymentId(), newPaymentId()];
    for (const id of [known, ended]) {
      await signEvm({ id, intent: {}, payload: transferOf() });
      await know((await read([id])).payments[0]!);
    }
    const decision = { outcome: 'allow' as const, violations: [], approvals: [], warnings: [] };
    await storeDecision(pool, { id: known, decisionId: 'dec_known', decision });
    await failTransaction(pool, { id: ended, code: 'dropped', message: 'no' });
    expect(kinds(await restore([known, ended]))).toEqual(['payment_completed', 'ended_but_signed']);
    expect(await getTransaction(pool, { id: known })).toMatchObject({ memo: 'mine', decision_id: 'dec_known' });
    expect(await getTransaction(pool, { id: ended })).toMatchObject({ status: 'failed' });
    expect(await findAttempts(pool, { transactionId: ended })).toEqual([]);
  });

  it('for an x402 payment: it counts until its authorisation is over', async () => {
    const id = newPaymentId('led');
    const { address } = walletOf(key, LOCAL);
    const now = Math.floor(Date.now() / 1000);
    const authorization = {
      domain: { name: 'USD Coin', version: '2', chainId: 31337, verifyingContract: TOKEN },
      ...{
        from: address as `0x${string}`,
        to: RECIPIENT,
        value: '7500000',
        validAfter: now - 600,
        validBefore: now + 60,
      },
      nonce: `0x${'ab'.repeat(32)}` as const,
    };
    const { validAfter: valid_after, validBefore: valid_before, nonce } = authorization;
    await signEvm({
      id,
      intent: {
        ...{ asset: TOKEN, amount_minor: '7500000', max_fee_minor: '0' },
        authorization: { valid_after, valid_before, nonce },
      },
      payload: { kind: 'transfer-authorization', authorization },
    });
    expect(kinds(await restore([id]))).toContain('payment_recreated');
    expect(await restore([id])).toEqual([]);
    expect(await getX402Payment(pool, { id })).toMatchObject({
      ...{ status: 'completed', settlement: 'unsettled', auth_nonce: nonce, amount_minor: '7500000', token: 'USDC' },
    });
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('lists each payment once, from an instant on, page by page', async () => {
    const sinceMs = Date.now();
    const ids = [];
    for (let i = 0; i < 5; i += 1) {
      const id = newPaymentId();
      await signEvm({ id, intent: {}, payload: transferOf() });
      ids.push(id);
    }
    type List = ReturnType<typeof createListSigned>;
    const list = (o: Parameters<List>[0]): Promise<Awaited<ReturnType<List>>> =>
      inActivity.run(createListSigned({ signer }), o);
    const first = await list({ sinceMs, after: null, limit: 3 });
    const second = await list({ sinceMs, after: first.next, limit: 3 });
    expect([...first.payments, ...second.payments].map(({ id }) => id)).toEqual(ids);
    expect(second.next).toBeNull();
  });

  it('is not begun while any signer does not tell what it knows', async () => {
    const id = newPaymentId();
    await signEvm({ id, intent: {}, payload: transferOf() });
    const endpoints = signers.endpoints.map((each) =>
      each.party === 2 ? { ...each, url: 'http://127.0.0.1:1' } : each,
    );
    const partly = createSignerClient({ signers: endpoints, identity: signers.coordinatorIdentity });
    await expect(read([id], partly)).rejects.toThrow(/only with all three signers/);
    partly.close();
  });
});

/** Payments that the database has given a coin each, as `<txid>:<vout>`. */
async function coinsOf(id: string): Promise<string[]> {
  const { rows: coins } = await pool.query('select txid, vout from coins where transaction_id = $1', [id]);
  return coins.map(({ txid, vout }) => `${txid}:${vout}`).toSorted();
}
const holdsOf = async (id: string) =>
  (await pool.query('select asset, amount_minor from holds where owner_id = $1 and closed_at is null', [id])).rows;
function bitcoinOf({ payload }: FamilyPayment): BitcoinTransaction {
  if (payload.kind !== 'bitcoin-transaction') throw new Error(`It is a ${payload.kind}.`);
  return payload.transaction;
}
const inputsOf = (payment: FamilyPayment) =>
  bitcoinOf(payment)
    .inputs.map(({ txid, vout }) => `${txid}:${vout}`)
    .toSorted();

describe('coins that are under way', () => {
  it('stay taken, with what they may cost, by every version that was signed', async () => {
    const cheap = bitcoinPayment(key);
    const { inputs, outputs } = bitcoinOf(cheap);
    const [paid, change] = outputs;
    const cheaper = bitcoinPayment(key, { inputs, outputs: [paid!, { ...change!, valueSat: '49500' }] });
    const id = await sign(cheaper);
    await sign(cheap, { id });
    expect(kinds(await restore([id]))).toContain('payment_recreated');
    expect(await coinsOf(id)).toEqual(inputsOf(cheap));
    expect(await holdsOf(id)).toEqual([{ asset: 'native', amount_minor: '151000' }]);
    const attempts = await findAttempts(pool, { transactionId: id });
    expect(attempts.map(({ version, purpose }) => `${version} ${purpose}`).toSorted()).toEqual([
      '1 payment',
      '2 payment',
    ]);
    expect(await findSlot(pool, { transactionId: id })).toMatchObject({
      ...{ nonce: null, version: 2, purpose: 'payment', payload: cheap.payload },
    });
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('are taken from a payment that was given one of them and of which nothing was signed', async () => {
    const first = await sign(bitcoinPayment(key));
    await restore([first]);
    const payment = bitcoinPayment(key);
    const id = await sign(payment);
    const other = newPaymentId();
    await know({ ...(await read([id])).payments[0]!, id: other });
    const { wallet_id: walletId } = (await getTransaction(pool, { id: other }))!;
    const { inputs } = bitcoinOf(payment);
    await insertSlot(pool, {
      ...{ walletId, chain: REGTEST, nonce: null, transactionId: other, payload: payment.payload },
      coins: [inputs[1]!],
    });
    expect(kinds(await restore([id]))).toEqual(['place_given_up', 'payment_recreated']);
    expect([await coinsOf(id), await coinsOf(other)]).toEqual([inputsOf(payment), []]);
    expect(await findSlot(pool, { transactionId: other })).toBeUndefined();
    expect(await coinsOf(first)).toHaveLength(2);
  });

  it('are never given to two payments that were signed', async () => {
    const payment = bitcoinPayment(key);
    const id = await sign(payment);
    await restore([id]);
    // The signers themselves refuse a second one.
    await expect(sign(bitcoinPayment(key, { inputs: [bitcoinOf(payment).inputs[0]!, someCoin()] }))).rejects.toThrow(
      /slot|coin/,
    );
    expect(await coinsOf(id)).toEqual(inputsOf(payment));
  });

  it('stay taken by one that was signed in part only, and nothing of it is sent', async () => {
    const payment = bitcoinPayment(key);
    const id = await sign(payment, { parts: 1 });
    const found = await restore([id]);
    expect(found.find(({ what }) => what === 'payment_recreated')?.detail).toMatch(/was begun to be signed at/);
    expect(await findAttempts(pool, { transactionId: id })).toEqual([]);
    expect(await coinsOf(id)).toEqual(inputsOf(payment));
    expect(await getTransaction(pool, { id })).toMatchObject({ status: 'pending', status_detail: 'signing' });
    expect(await restore([id])).toEqual([]);
    // Signed whole later, it is completed.
    await sign(payment, { id });
    expect(kinds(await restore([id]))).toEqual(['payment_completed']);
    expect(await findAttempts(pool, { transactionId: id })).toHaveLength(1);
    expect(await findMismatches(pool)).toEqual([]);
  });
});

describe('a transaction that expires', () => {
  it('is stored with its end also when that is past: the chain alone says whether it was taken before', async () => {
    const payment = tronPayment(key);
    const id = await sign(payment);
    expect(kinds(await restore([id], { laterMs: 3_600_000 }))).toContain('payment_recreated');
    expect(await getTransaction(pool, { id })).toMatchObject({ status: 'pending', status_detail: 'broadcast' });
    expect(await findSlot(pool, { transactionId: id })).toMatchObject({
      ...{ nonce: null, version: 1, purpose: 'payment', end_code: null, payload: payment.payload },
    });
    expect(await holdsOf(id)).toEqual([{ asset: 'native', amount_minor: '6100000' }]);
    expect(await findAttempts(pool, { transactionId: id })).toHaveLength(1);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('stands against going on while it may be taken and the database holds it for failed, and not any longer', async () => {
    const first = await sign(tronPayment(key));
    await restore([first]);
    const id = await sign(tronPayment(key));
    await know((await read([id])).payments[0]!);
    const decision = { outcome: 'allow' as const, violations: [], approvals: [], warnings: [] };
    await storeDecision(pool, { id, decisionId: 'dec_known', decision });
    await failTransaction(pool, { id, code: 'dropped', message: 'no' });
    expect(kinds(await restore([id]))).toEqual(['ended_but_signed']);
    expect(kinds(await restore([id], { laterMs: 3_600_000 }))).toEqual([]);
    expect(await getTransaction(pool, { id })).toMatchObject({ status: 'failed' });
    expect(await findAttempts(pool, { transactionId: id })).toEqual([]);
  });
});
