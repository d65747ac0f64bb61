import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../../activities/allot.ts';
import { createAllotReplacement } from '../../../activities/allot-replacement.ts';
import { createCheckChain } from '../../../activities/check-chain.ts';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { createFindUnsigned, createGiveBackNonce } from '../../../activities/give-back-nonce.ts';
import { createFail, createSettle } from '../../../activities/settle.ts';
import type { ChainAdapter } from '../../../shared/chain/adapter.ts';
import type { BitcoinCoin, BitcoinPrepared, BitcoinReplacementTerms } from '../../../shared/chain/bitcoin/prepared.ts';
import { familyOf } from '../../../shared/chain/families.ts';
import { createRegistry } from '../../../shared/chain/registry.ts';
import type { TronPrepared } from '../../../shared/chain/tron/prepared.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { findSlot } from '../../../shared/db/slots.ts';
import { getTransaction, insertTransaction } from '../../../shared/db/transactions.ts';
import { wishForDueSpeed } from '../../../shared/db/waiting-attempts.ts';
import type { BitcoinTransaction, TransactionPayload, TronTransaction } from '../../../shared/domain/receipt.ts';
import { newId } from '../../../shared/ids.ts';
import { importReceiptKey, verifyReceipt } from '../../../shared/receipt.ts';
import { cancelPayment, speedUpPayment } from '../../../shared/replace-payment.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { patiently } from '../../support/patience.ts';
import { insertTestAgent, type TestAgent } from '../../support/rows.ts';

const bitcoin = {
  chain: 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328',
  token: 'BTC',
  decimals: 8,
  from: 'bcrt1q6z64a43mjgkcq0ul2znwneq3spghrlau9slefp',
  to: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
};
const tron = {
  chain: 'tron:0xcd8690dc',
  token: 'TRX',
  decimals: 6,
  from: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8',
  to: 'TWsm8HtU2A5eEzoT8ev8yaoFjHsXLLrckb',
};

/** Of bytes that say nothing. */
const nothing = { max_fee_per_gas: null, max_priority_fee_per_gas: null, fee_rate: null, expires_at: null };
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
let database: TestDatabase;
/** Of two workers. */
let pools: Pool[];
let pool: Pool;
let allot: ReturnType<typeof createAllot>[];
let replace: ReturnType<typeof createAllotReplacement>;
const now = { ms: Date.now() };

beforeAll(async () => {
  database = await createTestDatabase();
  pools = [0, 1].map(() => createPool({ url: database.url, application: 'test' }));
  pool = pools[0]!;
  const policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  const clock = async () => new Date(now.ms);
  allot = pools.map((each) => createAllot({ pool: each, clock, policyKey, maxInFlight: 16 }));
  replace = createAllotReplacement({ pool, clock, policyKey });
});
afterAll(async () => {
  await Promise.all((pools ?? []).map((each) => each.end()));
  await database?.drop();
});

const row = async (id: string) => (await getTransaction(pool, { id }))!;
const slot = (id: string) => findSlot(pool, { transactionId: id });

/** A payment that the policies have allowed. */
async function allowed(agent: TestAgent, { from, to, ...kind }: typeof bitcoin, amountMinor: bigint): Promise<string> {
  const { id } = await insertTransaction(pool, {
    ...agent,
    ...kind,
    ...{ id: newId('tx'), asset: 'native', amountMinor, fromAddress: from, toAddress: to, memo: undefined },
  });
  await pool.query('update wallets set address = $2 where id = $1', [agent.walletId, from]);
  await createEvaluatePolicy({ pool, clock: databaseClock })(id);
  return id;
}

async function claimsOf(receipt: string) {
  const key = await (await import('jose')).importJWK(publicKey.export({ format: 'jwk' }), 'EdDSA');
  return verifyReceipt(key as Parameters<typeof verifyReceipt>[0], { receipt, now: new Date(now.ms) });
}

describe('allot, where money is in coins', () => {
  const coin = (valueSat: number): BitcoinCoin => ({
    ...{ txid: randomBytes(32).toString('hex'), vout: 0, valueSat: String(valueSat) },
  });
  const prepared = (coins: readonly BitcoinCoin[]): BitcoinPrepared => {
    const balance = coins.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n).toString();
    return {
      ...{ outcome: 'ready', maxFeeMinor: '3000', atBlock: 1, balanceMinor: balance, nativeBalanceMinor: balance },
      ...{ satPerKvb: '10000', ceilingSatPerKvb: '200000', coins },
    };
  };
  const terms = (coins: readonly BitcoinCoin[], satPerKvb = '20000'): BitcoinReplacementTerms => ({
    ...{ satPerKvb, ceilingSatPerKvb: '200000', atBlock: 1, nativeBalanceMinor: prepared(coins).nativeBalanceMinor },
  });
  const bitcoinOf = (payload: TransactionPayload): BitcoinTransaction => {
    if (payload.kind !== 'bitcoin-transaction') throw new TypeError(payload.kind);
    return payload.transaction;
  };
  const names = ({ inputs }: BitcoinTransaction) => inputs.map(({ txid, vout }) => `${txid}:${vout}`);
  const coinsOf = async (id: string) =>
    (await pool.query('select txid, vout from coins where transaction_id = $1 order by txid', [id])).rows;
  async function given(id: string, coins: readonly BitcoinCoin[], worker = 0) {
    const result = await allot[worker]!(id, prepared(coins));
    if (result.outcome !== 'allotted') throw new Error(JSON.stringify(result));
    return result.allotment;
  }
  const store = (id: string, version = 1, purpose: 'payment' | 'noop' = 'payment') =>
    storeAttempt(pool, { transactionId: id, hash: `${id}-${version}`, raw: '00', purpose, version, offer: nothing });

  it('no coin is ever in two payments, two workers at once; who finds none free waits', async () => {
    const agent = await insertTestAgent(pool);
    const coins = Array.from({ length: 5 }, () => coin(100_000));
    const ids = await Promise.all(Array.from({ length: 8 }, () => allowed(agent, bitcoin, 50_000n)));
    const results = await Promise.all(ids.map((id, i) => allot[i % 2]!(id, prepared(coins))));
    const taken = results.flatMap((each) =>
      each.outcome === 'allotted' ? names(bitcoinOf(each.allotment.payload)) : [],
    );
    expect(new Set(taken).size).toBe(taken.length);
    expect(results.map(({ outcome }) => outcome).sort()).toEqual([
      ...Array.from({ length: 5 }, () => 'allotted'),
      ...Array.from({ length: 3 }, () => 'wait'),
    ]);
  });

  it('locks the coins with the payment, gives the same again, and frees them only when it was never signed', async () => {
    const agent = await insertTestAgent(pool);
    const only = coin(100_000);
    const [first, second] = [await allowed(agent, bitcoin, 50_000n), await allowed(agent, bitcoin, 40_000n)];
    const { payload } = await given(first, [only]);
    expect(await row(first)).toMatchObject({ nonce: null, status_detail: 'signing' });
    expect(await coinsOf(first)).toEqual([{ txid: only.txid, vout: 0 }]);
    expect((await given(first, [coin(900_000)])).payload).toEqual(payload);
    expect(await allot[1]!(second, prepared([only]))).toEqual({ outcome: 'wait' });
    await createFail({ pool })(first, 'signing_failed', 'No.');
    expect(await createFindUnsigned({ pool })(first)).toMatchObject({
      slot: `${bitcoin.chain}/coin/${only.txid}/0`,
      transactionId: first,
    });
    expect(await createGiveBackNonce({ pool })(first)).toEqual({ isGivenBack: true });
    expect(names(bitcoinOf((await given(second, [only])).payload))).toEqual([`${only.txid}:0`]);
    await store(second);
    await pool.query(
      `update attempts set block_number = 7, block_hash = 'b', succeeded = true, fee_minor = 1410, final_at = now()
       where transaction_id = $1`,
      [second],
    );
    expect(await createSettle({ pool })(second)).toMatchObject({ state: 'ended', status: 'confirmed' });
    // An endpoint that lags still shows the coin.
    const third = await allowed(agent, bitcoin, 10_000n);
    expect(await allot[0]!(third, prepared([only]))).toEqual({ outcome: 'wait' });
  });

  it('holds what the chosen coins cost, not what was foreseen, and says when there is not so much', async () => {
    const agent = await insertTestAgent(pool);
    const small = Array.from({ length: 20 }, () => coin(10_000));
    const id = await allowed(agent, bitcoin, 150_000n);
    const { payload, receipt } = await given(id, small);
    const fee = familyOf(bitcoin.chain).maxFeeOf(payload);
    expect(fee).toBeGreaterThan(3_000n);
    const { rows } = await pool.query('select amount_minor from holds where owner_id = $1', [id]);
    expect(rows).toEqual([{ amount_minor: (150_000n + fee).toString() }]);
    expect((await claimsOf(receipt)).intent).toMatchObject({ to: bitcoin.to, max_fee_minor: fee.toString() });
  });

  it('replaces by the same coins for more, and cancels by giving them back to the wallet', async () => {
    const agent = await insertTestAgent(pool);
    const coins = [coin(200_000)];
    const id = await allowed(agent, bitcoin, 50_000n);
    const before = bitcoinOf((await given(id, coins)).payload);
    await store(id);
    await inTransaction(pool, async (db) => speedUpPayment(db, await row(id)));
    const faster = await replace(id, terms(coins));
    if (faster.outcome !== 'allotted') throw new Error(faster.outcome);
    const next = bitcoinOf(faster.allotment.payload);
    expect(names(next)).toEqual(names(before));
    expect(next.outputs[0]).toEqual(before.outputs[0]);
    const feeOf = (transaction: BitcoinTransaction) =>
      familyOf(bitcoin.chain).maxFeeOf({ kind: 'bitcoin-transaction', transaction });
    expect(feeOf(next)).toBeGreaterThan(feeOf(before));
    await store(id, 2);
    await inTransaction(pool, async (db) => cancelPayment(db, await row(id)));
    const cancelled = await replace(id, terms(coins, '30000'));
    if (cancelled.outcome !== 'allotted') throw new Error(cancelled.outcome);
    const noop = bitcoinOf(cancelled.allotment.payload);
    expect(names(noop)).toEqual(names(before));
    expect(noop.outputs.map(({ address }) => address)).toEqual([bitcoin.from]);
    expect((await claimsOf(cancelled.allotment.receipt)).intent).toMatchObject({
      ...{ asset: 'native', to: bitcoin.from, amount_minor: '0', max_fee_minor: feeOf(noop).toString() },
    });
  });

  it('each payment offers more by itself when it has waited long: none waits for another one’s place', async () => {
    const agent = await insertTestAgent(pool);
    const ids = [await allowed(agent, bitcoin, 50_000n), await allowed(agent, bitcoin, 50_000n)];
    for (const id of ids) {
      await given(id, [coin(100_000), coin(100_000)]);
      await store(id);
      await pool.query('update attempts set sent_at = now(), waiting_block = 10 where transaction_id = $1', [id]);
    }
    const wish = { chain: bitcoin.chain, headNumber: 13, afterBlocks: 3 };
    expect((await wishForDueSpeed(pool, wish)).filter((id) => ids.includes(id)).sort()).toEqual([...ids].sort());
  });
});

describe('allot, where transactions expire', () => {
  const prepared = (o: Partial<TronPrepared> = {}): TronPrepared => ({
    ...{ outcome: 'ready', maxFeeMinor: '268000', atBlock: 1, balanceMinor: '900000000' },
    ...{ nativeBalanceMinor: '900000000', feeLimitSun: '0', bandwidthSun: '268000' },
    ...{ refBlockBytes: '0a1b', refBlockHash: '00112233445566aa', formerAbsentAtMs: null },
    ...{ timestampMs: now.ms, expirationMs: now.ms + 600_000 },
    ...o,
  });
  const tronOf = (payload: TransactionPayload): TronTransaction => {
    if (payload.kind !== 'tron-transaction') throw new TypeError(payload.kind);
    return payload.transaction;
  };
  async function given(id: string, with_?: TronPrepared) {
    const result = await allot[0]!(id, with_);
    if (result.outcome !== 'allotted') throw new Error(JSON.stringify(result));
    return result.allotment;
  }
  const chainOf = (o: Partial<ChainAdapter>) => {
    const chain = createRegistry({ environment: 'sandbox', enabled: [tron.chain] }).chains[0]!;
    return new Map([[tron.chain, { chain, ...o } as ChainAdapter]]);
  };

  it('gives the same until too little time is left, then another one, once the former is over for certain', async () => {
    const agent = await insertTestAgent(pool);
    const id = await allowed(agent, tron, 5n);
    const first = await given(id, prepared());
    expect((await given(id)).payload).toEqual(first.payload);
    const { expirationMs } = tronOf(first.payload);
    now.ms = expirationMs - 29_000;
    expect(await allot[0]!(id)).toEqual({ outcome: 'unprepared' });
    expect(await allot[0]!(id, prepared())).toEqual({ outcome: 'unprepared' });
    now.ms = expirationMs + 60_000;
    const tooEarly = prepared({ formerAbsentAtMs: expirationMs - 1 });
    expect(await allot[0]!(id, tooEarly)).toEqual({ outcome: 'unprepared' });
    const second = await given(id, prepared({ formerAbsentAtMs: expirationMs + 3_000 }));
    const former = familyOf(tron.chain).slotOf(first.payload, tron.from);
    expect(tronOf(second.payload).expirationMs).toBe(now.ms + 600_000);
    expect((await claimsOf(second.receipt)).replaces).toEqual([former]);
    expect(await slot(id)).toMatchObject({ version: 2, former_slots: [former], payload: second.payload });
    // The same again, and its receipt says the same.
    expect((await claimsOf((await given(id)).receipt)).replaces).toEqual([former]);
  });

  it('remembers the newest 16 that it gave up', async () => {
    const agent = await insertTestAgent(pool);
    const id = await allowed(agent, tron, 5n);
    const slots: string[] = [];
    let { payload } = await given(id, prepared());
    for (let i = 0; i < 18; i += 1) {
      slots.push(familyOf(tron.chain).slotOf(payload, tron.from));
      now.ms = tronOf(payload).expirationMs + 1_000;
      const { payload: next, receipt } = await given(id, prepared({ formerAbsentAtMs: now.ms }));
      payload = next;
      expect((await claimsOf(receipt)).replaces).toEqual(slots.slice(-16));
    }
    expect((await slot(id))?.former_slots).toEqual(slots.slice(-16));
  });

  it('ends a payment that was to end, and whose bytes nobody stored, only once nobody can send them any more', async () => {
    const agent = await insertTestAgent(pool);
    const id = await allowed(agent, tron, 5n);
    await given(id, prepared());
    await inTransaction(pool, async (db) => cancelPayment(db, await row(id)));
    const look = (isExpired: boolean) =>
      createCheckChain({ pool, chains: chainOf({ isExpired: async () => isExpired }), ...patiently })(id);
    expect(await look(false)).toEqual({ state: 'waiting' });
    const seen = await look(true);
    expect(seen).toMatchObject({ state: 'expired', code: 'cancelled' });
    if (seen.state !== 'expired') return;
    expect(await createFail({ pool })(id, seen.code, seen.message, true)).toMatchObject({ status: 'failed' });
    expect(await row(id)).toMatchObject({ status: 'failed', failure_code: 'cancelled' });
    const { rows } = await pool.query('select * from holds where owner_id = $1', [id]);
    expect(rows).toEqual([]);
  });

  it('dropped by expiry: absent while a block may still take it is only waiting', async () => {
    const agent = await insertTestAgent(pool);
    const id = await allowed(agent, tron, 5n);
    await given(id, prepared());
    await storeAttempt(pool, {
      transactionId: id,
      hash: id,
      raw: '00',
      purpose: 'payment',
      version: 1,
      offer: nothing,
    });
    const sent: string[] = [];
    const look = (isExpired: boolean) =>
      createCheckChain({
        ...{ pool, ...patiently },
        chains: chainOf({
          head: async () => ({ number: 9, hash: 'h', parentHash: 'g', transactionHashes: [] }),
          inclusions: async () => [],
          knows: async () => false,
          send: async ({ raw }) => {
            sent.push(raw);
            return { outcome: 'sent' };
          },
          isExpired: async () => isExpired,
        }),
      })(id);
    expect(await look(false)).toEqual({ state: 'waiting' });
    expect(sent).toEqual(['00']);
    expect(await look(true)).toMatchObject({ state: 'expired', code: 'dropped' });
    expect(sent).toEqual(['00']);
    expect(await createFail({ pool })(id, 'dropped', 'It expired.', true)).toMatchObject({ status: 'failed' });
  });
});
