import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../../activities/allot.ts';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { createGiveBackNonce } from '../../../activities/give-back-nonce.ts';
import { createFail, createSettle } from '../../../activities/settle.ts';
import type { EvmPrepared } from '../../../shared/chain/evm/prepared.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { insertPolicy } from '../../../shared/db/policies.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { insertSlot, nextNonce } from '../../../shared/db/slots.ts';
import { getTransaction } from '../../../shared/db/transactions.ts';
import { newId } from '../../../shared/ids.ts';
import { importReceiptKey, verifyReceipt } from '../../../shared/receipt.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { evmOf } from '../../support/evm-payload.ts';
import { insertTestAgent, insertTestPayment, signedBytes } from '../../support/rows.ts';

const clock = databaseClock;
const maxInFlight = 3;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');

let database: TestDatabase;
let pool: Pool;
let evaluatePolicy: ReturnType<typeof createEvaluatePolicy>;
let allot: ReturnType<typeof createAllot>;
let settle: ReturnType<typeof createSettle>;
let fail: ReturnType<typeof createFail>;
let giveBackNonce: ReturnType<typeof createGiveBackNonce>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  const policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  evaluatePolicy = createEvaluatePolicy({ pool, clock });
  allot = createAllot({ pool, clock, policyKey, maxInFlight });
  settle = createSettle({ pool });
  fail = createFail({ pool });
  giveBackNonce = createGiveBackNonce({ pool });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const prepared = (minedCount = 0): EvmPrepared => ({
  outcome: 'ready',
  minedCount,
  gas: '21000',
  maxFeePerGasWei: '3000000000',
  maxPriorityFeePerGasWei: '1000000000',
  maxFeeMinor: '63000000000000',
  atBlock: 1,
  balanceMinor: '1000000000000',
  nativeBalanceMinor: '1000000000000000000000',
});
const row = async (id: string) => (await getTransaction(pool, { id }))!;
const nonceOf = async (id: string) => Number((await row(id)).nonce);

async function allotted(id: string, minedCount = 0) {
  expect((await evaluatePolicy(id)).outcome).toBe('allowed');
  const given = await allot(id, prepared(minedCount));
  if (given.outcome !== 'allotted') throw new Error(`not allotted but ${given.outcome}`);
  return given.allotment;
}
/** As the watcher does once an attempt is deep enough. */
async function finish(id: string, succeeded = true) {
  const hash = `0x${id}`;
  await storeAttempt(pool, { transactionId: id, hash, raw: signedBytes, purpose: 'payment', version: 1 });
  await pool.query(
    `update attempts set block_number = 7, block_hash = '0xb', succeeded = $2, fee_minor = 21000, final_at = now() where hash = $1`,
    [hash, succeeded],
  );
}

describe('evaluatePolicy', () => {
  it('stores one decision, whatever the policies say later', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent, { amountMinor: 5n });
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'allowed', resume: 'prepare' });
    const { decision_id } = await row(id);
    await insertPolicy(pool, {
      id: newId('pol'),
      ...agent,
      type: 'spending_limit',
      rules: { max_transaction_amount: '0.000001' },
    });
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'allowed', resume: 'prepare' });
    expect((await row(id)).decision_id).toBe(decision_id);
  });

  it('denies by policy with every violation stored, and ends the payment', async () => {
    const agent = await insertTestAgent(pool);
    await insertPolicy(pool, {
      id: newId('pol'),
      ...agent,
      type: 'spending_limit',
      rules: { max_transaction_amount: '1' },
    });
    await insertPolicy(pool, {
      id: newId('pol'),
      ...agent,
      type: 'spending_limit',
      rules: { max_transaction_amount: '2' },
    });
    const id = await insertTestPayment(pool, agent, { amountMinor: 2_000_001n });
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'denied' });
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'denied' });
    const stored = await row(id);
    expect(stored).toMatchObject({ status: 'failed', status_detail: 'failed', failure_code: 'policy_violation' });
    expect(stored.decision?.violations.map(({ limit }) => limit)).toEqual(['1', '2']);
    expect(await allot(id, prepared())).toEqual({ outcome: 'ended' });
  });

  it('fails the payment of an agent that is inactive', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await pool.query(`update agents set status = 'inactive' where id = $1`, [agent.agentId]);
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'denied' });
    expect(await row(id)).toMatchObject({ failure_code: 'agent_inactive' });
  });
});

describe('allot', () => {
  it('gives each payment its own nonce, from the chain upwards', async () => {
    const agent = await insertTestAgent(pool);
    const [a, b] = [await insertTestPayment(pool, agent), await insertTestPayment(pool, agent)];
    expect(evmOf((await allotted(a, 4)).payload).nonce).toBe(4);
    expect(evmOf((await allotted(b, 4)).payload).nonce).toBe(5);
    expect(await nonceOf(a)).toBe(4);
  });

  it('gives the same nonce and payload when repeated, with a receipt that names the payment', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent, { amountMinor: 7n });
    const first = await allotted(id);
    const again = await allot(id);
    if (again.outcome !== 'allotted') throw new Error(again.outcome);
    expect(again.allotment.payload).toEqual(first.payload);
    const key = await crypto.subtle.importKey('jwk', publicKey.export({ format: 'jwk' }), 'Ed25519', true, ['verify']);
    const receipt = await verifyReceipt(key, { receipt: first.receipt, now: new Date() });
    expect(receipt).toMatchObject({
      transaction_id: id,
      agent_id: agent.agentId,
      intent: { amount_minor: '7', max_fee_minor: '63000000000000', chain: 'eip155:31337' },
    });
  });

  it('F19 gives parallel payments as many nonces, two workers at once, and lets no more out than may be in flight', async () => {
    const agent = await insertTestAgent(pool);
    const other = createPool({ url: database.url, application: 'second worker' });
    try {
      const policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
      const second = createAllot({ pool: other, clock, policyKey, maxInFlight });
      const ids = await Promise.all(Array.from({ length: 10 }, () => insertTestPayment(pool, agent)));
      await Promise.all(ids.map(evaluatePolicy));
      const given = await Promise.all(ids.map((id, i) => (i % 2 ? second : allot)(id, prepared())));
      expect(given.filter(({ outcome }) => outcome === 'allotted')).toHaveLength(maxInFlight);
      expect(given.filter(({ outcome }) => outcome === 'wait')).toHaveLength(10 - maxInFlight);
      const { rows } = await pool.query('select nonce from slots where wallet_id = $1 order by nonce', [
        agent.walletId,
      ]);
      expect(rows.map(({ nonce }) => Number(nonce))).toEqual([0, 1, 2]);
    } finally {
      await other.end();
    }
  });

  it('F1 F2 gives a nonce again that was never signed, and leaves no gap', async () => {
    const agent = await insertTestAgent(pool);
    const [a, b, c] = [
      await insertTestPayment(pool, agent),
      await insertTestPayment(pool, agent),
      await insertTestPayment(pool, agent),
    ];
    await allotted(a);
    await allotted(b);
    expect(await fail(b, 'signing_failed', 'refused')).toEqual({ state: 'open', replace: true });
    expect(await giveBackNonce(b)).toEqual({ isGivenBack: true });
    expect(await row(b)).toMatchObject({ status: 'failed', failure_code: 'signing_failed' });
    expect(evmOf((await allotted(c)).payload).nonce).toBe(1);
  });

  it('never gives a nonce again whose bytes were stored', async () => {
    const agent = await insertTestAgent(pool);
    const [a, b] = [await insertTestPayment(pool, agent), await insertTestPayment(pool, agent)];
    await allotted(a);
    await storeAttempt(pool, { transactionId: a, hash: `0x${a}`, raw: signedBytes, purpose: 'payment', version: 1 });
    await fail(a, 'replaced', 'by another');
    expect(evmOf((await allotted(b)).payload).nonce).toBe(1);
  });

  it('F48 takes the larger of its own count and the chain’s; an endpoint that lags lowers nothing', async () => {
    const agent = await insertTestAgent(pool);
    const ids = await Promise.all(Array.from({ length: 3 }, () => insertTestPayment(pool, agent)));
    expect(evmOf((await allotted(ids[0]!, 8)).payload).nonce).toBe(8);
    await finish(ids[0]!);
    await settle(ids[0]!);
    expect(evmOf((await allotted(ids[1]!, 8)).payload).nonce).toBe(9);
    expect(evmOf((await allotted(ids[2]!, 20)).payload).nonce).toBe(20);
  });

  it('judges again: what was forbidden since the first evaluation is denied, and its nonce given back', async () => {
    const agent = await insertTestAgent(pool);
    const [a, b] = [
      await insertTestPayment(pool, agent, { amountMinor: 3_000_000n }),
      await insertTestPayment(pool, agent),
    ];
    await allotted(a);
    await insertPolicy(pool, {
      id: newId('pol'),
      ...agent,
      type: 'spending_limit',
      rules: { max_transaction_amount: '2' },
    });
    expect((await allot(a)).outcome).toBe('signed');
    expect(await row(a)).toMatchObject({ status: 'pending' });
    await giveBackNonce(a);
    expect(await row(a)).toMatchObject({ status: 'failed', failure_code: 'policy_violation' });
    expect((await row(a)).decision?.violations).toMatchObject([{ limit: '2', attempted: '3' }]);
    expect(evmOf((await allotted(b)).payload).nonce).toBe(0);
  });

  it('says `signed` once bytes are stored, whatever the policies say by then', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await allotted(id);
    await storeAttempt(pool, { transactionId: id, hash: `0x${id}`, raw: signedBytes, purpose: 'payment', version: 1 });
    await pool.query(`update agents set status = 'inactive' where id = $1`, [agent.agentId]);
    expect(await allot(id)).toEqual({ outcome: 'signed' });
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'allowed', resume: 'watch' });
  });

  it('property: the next nonce is the lowest free one from the chain’s count', async () => {
    const agent = await insertTestAgent(pool);
    const payments = await Promise.all(Array.from({ length: 8 }, () => insertTestPayment(pool, agent)));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.integer({ min: 0, max: 12 }), { maxLength: 8 }),
        fc.nat(14),
        async (taken, minedCount) => {
          const place = { walletId: agent.walletId, chain: 'eip155:31337' };
          await pool.query('delete from slots where wallet_id = $1', [agent.walletId]);
          const payload = { kind: 'evm-transaction' } as Parameters<typeof insertSlot>[1]['payload'];
          for (const [i, nonce] of taken.entries())
            await insertSlot(pool, { ...place, nonce, transactionId: payments[i]!, payload });
          let expected = minedCount;
          while (taken.includes(expected)) expected += 1;
          expect(await nextNonce(pool, { ...place, minedCount })).toBe(expected);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('settle', () => {
  it('ends nothing before an attempt is final, so that a signal sent by hand settles nothing', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await allotted(id);
    await storeAttempt(pool, { transactionId: id, hash: `0x${id}`, raw: signedBytes, purpose: 'payment', version: 1 });
    expect(await settle(id)).toEqual({ state: 'open' });
    expect((await row(id)).status).toBe('pending');
  });

  it('confirms with the facts of the receipt, once, and frees the place in flight for the one that waits', async () => {
    const agent = await insertTestAgent(pool);
    const ids = await Promise.all(Array.from({ length: maxInFlight + 1 }, () => insertTestPayment(pool, agent)));
    for (const id of ids.slice(0, maxInFlight)) await allotted(id);
    const last = ids[maxInFlight]!;
    await evaluatePolicy(last);
    expect((await allot(last, prepared())).outcome).toBe('wait');
    await finish(ids[0]!);
    const end = { state: 'ended', status: 'confirmed', wake: last };
    expect(await settle(ids[0]!)).toEqual(end);
    // The one that was woken is not woken again; there is no other.
    expect(await settle(ids[0]!)).toEqual({ state: 'ended', status: 'confirmed' });
    expect(await row(ids[0]!)).toMatchObject({ status: 'confirmed', fee_minor: '21000', block_number: '7' });
    expect((await allot(last, prepared())).outcome).toBe('allotted');
  });

  it('wakes as many payments as nonces become free together, in the order in which they came', async () => {
    const agent = await insertTestAgent(pool);
    const ids = await Promise.all(Array.from({ length: maxInFlight + 3 }, () => insertTestPayment(pool, agent)));
    for (const id of ids.slice(0, maxInFlight)) await allotted(id);
    for (const id of ids.slice(maxInFlight)) {
      await evaluatePolicy(id);
      expect((await allot(id, prepared())).outcome).toBe('wait');
    }
    await Promise.all(ids.slice(0, 2).map((id) => finish(id)));
    const woken = await Promise.all(ids.slice(0, 2).map((id) => settle(id)));
    const names = woken.map((end) => (end.state === 'ended' ? end.wake : undefined));
    expect(names.toSorted()).toEqual(ids.slice(maxInFlight, maxInFlight + 2).toSorted());
    // One that finds no nonce after all keeps its place, and is woken next.
    await pool.query('update slots set closed_at = null where wallet_id = $1', [agent.walletId]);
    expect((await allot(names[0]!, prepared())).outcome).toBe('wait');
    await finish(ids[2]!);
    expect(await settle(ids[2]!)).toMatchObject({ wake: names[0] });
  });

  it('fails a reverted payment, with the fee it has cost', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await allotted(id);
    await finish(id, false);
    expect(await settle(id)).toEqual({ state: 'ended', status: 'failed' });
    expect(await row(id)).toMatchObject({ failure_code: 'reverted', fee_minor: '21000' });
  });

  it('never fails a payment that is confirmed', async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await allotted(id);
    await finish(id);
    await settle(id);
    expect(await fail(id, 'replaced', 'late news')).toEqual({ state: 'ended', status: 'confirmed' });
    expect((await row(id)).status).toBe('confirmed');
  });
});
