import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { messageNames } from '../../shared/temporal.ts';
import { type Answer, createTestClient, eventually, type TestClient } from '../support/client.ts';
import { readPlan, writePlan } from '../support/crash-plan.ts';
import { NILE_CHAIN, type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { startReceiver, type TestReceiver, verify } from '../support/receiver.ts';
import { addressOf } from '../support/tron-bytes.ts';
import { TronChainDouble } from '../support/tron-chain-double.ts';
import { tokensOf } from '../support/tron-ledger-double.ts';
import { newSecret } from '../support/webhook-rows.ts';

/** Source: the registry of the service. */
const usdt = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf';
const treasurer = 'treasurer@example.com';
const trx = 1_000_000n;
const lifeMs = 10 * 60_000;
/** Nodes may be behind each other: only a solid block so late after an expiration proves that it is over. */
const provenAfterMs = 31_000;
const soon = { timeoutMs: 180_000 };
/** Long ago, so that the test of an expired transaction has time before the present. */
const chain = new TronChainDouble({ chain: NILE_CHAIN, nowMs: Date.now() - 2 * lifeMs });

let stack: OwnStack;
let client: TestClient;
let pool: Pool;
let temporal: Client;
let receiver: TestReceiver;
const secret = newSecret();

beforeAll(async () => {
  stack = await startOwnStack({ workers: 2, tron: chain, decides: true });
  client = createTestClient(stack);
  pool = createPool({ url: stack.databaseUrl, application: 'test' });
  temporal = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) });
  receiver = await startReceiver({ tls: false });
  const hook = { url: `${receiver.url}/events`, events: ['payment.completed'], secret };
  expect((await client.post('/webhooks', hook)).status).toBe(200);
});
afterAll(async () => {
  await temporal?.connection.close();
  await pool?.end();
  await stack?.stop();
  await receiver?.stop();
});

/** Blocks come faster than on the real chain, and bear the time of now. */
let mining: Promise<void> | undefined;
let isMining = false;
function startMining(): void {
  isMining = true;
  mining = (async () => {
    for (; isMining; await delay(100)) chain.produce({ timestampMs: laterThan(Date.now()) });
  })();
}
async function stopMining(): Promise<void> {
  isMining = false;
  await mining;
}
const laterThan = (ms: number) => Math.max(ms, chain.head.timestampMs + 1);
/** So many blocks that what is in the first of them is solid. */
function solidify(o: { timestampMs?: number; include?: (id: string) => boolean } = {}): void {
  const { timestampMs = Date.now(), ...rest } = o;
  for (let block = 0; block <= chain.solidityLag; block += 1)
    chain.produce({ timestampMs: laterThan(timestampMs), ...rest });
}

interface Agent {
  readonly id: string;
  readonly address: string;
}
/** An agent with a wallet on Nile, and this much in it, which the chain has for good. */
async function newAgent({ trxSun = 1_000n * trx, usdtMinor = 1_000n * trx, timestampMs = Date.now() } = {}) {
  const { status, body } = await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain: NILE_CHAIN });
  expect([status, body.wallet?.address]).toEqual([200, expect.stringMatching(/^T\w{33}$/)]);
  chain.setAccount(body.wallet.address, { balanceSun: trxSun });
  chain.setTokens(usdt, body.wallet.address, usdtMinor);
  solidify({ timestampMs });
  return { id: body.id, address: body.wallet.address } satisfies Agent;
}
const stranger = () => addressOf(Uint8Array.of(0x41, ...crypto.getRandomValues(new Uint8Array(20))));
const sunOf = (address: string) => chain.head.state.accounts.get(address)?.balanceSun ?? 0n;
const usdtOf = (address: string) => tokensOf(chain.head.state, usdt, address);
const toSun = (amount: string) => BigInt(Math.round(Number(amount) * 1e6));

const pay = (agent: Agent, to: string, amount: string, token = 'USDT'): Promise<Answer> =>
  client.post('/transactions', {
    ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: NILE_CHAIN },
    ...{ to_address: to, amount, token },
  });
// biome-ignore lint/suspicious/noExplicitAny: a transaction as on the wire
const until = async (id: string, isRight: (body: any) => boolean, timeoutMs = soon.timeoutMs) =>
  (
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ body }) => isRight(body),
      { timeoutMs },
    )
  ).body;
const ended = (id: string, timeoutMs?: number) => until(id, ({ status }) => status !== 'pending', timeoutMs);
async function confirmed(id: string, timeoutMs?: number) {
  const done = await ended(id, timeoutMs);
  expect([done.status, done.failure_message]).toEqual(['confirmed', null]);
  return done;
}
/** A payment whose bytes wait at the node, which makes no block. */
async function stuck(agent: Agent, to: string, amount = '10', token = 'USDT') {
  await stopMining();
  const { status, body } = await pay(agent, to, amount, token);
  expect(status).toBe(200);
  const { attempts } = await until(body.id, (seen) => seen.attempts.length === 1);
  await eventually(
    async () => chain.pendingIds,
    (ids) => ids.includes(attempts[0].hash),
    soon,
  );
  return { id: body.id as string, hash: attempts[0].hash as string, expiresAt: attempts[0].expires_at as string };
}
/** Has the payment look at the chain now, as it does by itself after a while. */
const look = (id: string) => temporal.workflow.getHandle(id).signal(messageNames.replace);
/** Transactions of a wallet in any block. */
const sentBy = (address: string) => {
  const found: string[] = [];
  for (let number = chain.head.number; number > 0; number -= 1)
    for (const { transaction } of chain.block(number)!.included)
      if (transaction.contract.owner === address) found.push(transaction.id);
  return found;
};

describe('a payment on Tron whose signers were away for longer than its transaction was good', () => {
  it('is made anew, in the place of the one that nobody can use any more, and once', { timeout: 400_000 }, async () => {
    // Half a minute of its ten is left; it is built anew once that is all that is left.
    const [agent, to] = [await newAgent({ timestampMs: Date.now() - lifeMs + 34_000 }), stranger()];
    await Promise.all([stack.halt('signer-1'), stack.halt('signer-2')]);
    const { body } = await pay(agent, to, '10');
    const slotOf = async () => {
      const { rows } = await pool.query('select payload, former_slots, version from slots where transaction_id = $1', [
        body.id,
      ]);
      return rows[0];
    };
    const first = await eventually(slotOf, (slot) => slot !== undefined, soon);
    const { expirationMs } = first.payload.transaction;
    expect(expirationMs - Date.now()).toBeLessThan(35_000);
    await delay(Math.max(expirationMs - Date.now(), 0) + 1_000);
    solidify({ timestampMs: expirationMs + provenAfterMs });
    await Promise.all([stack.start('signer-1'), stack.start('signer-2')]);
    startMining();
    const done = await confirmed(body.id);
    expect(done.attempts).toHaveLength(1);
    expect(Date.parse(done.attempts[0].expires_at)).toBeGreaterThan(expirationMs);
    const last = await slotOf();
    expect(last.former_slots).toHaveLength(1);
    expect(sentBy(agent.address)).toEqual([done.hash]);
    expect(usdtOf(to)).toBe(10n * trx);
  });
});

describe('an agent on Tron', () => {
  beforeEach(startMining);
  afterEach(stopMining);

  it('pays TRX and makes the account of its recipient, at the fee that it is told', async () => {
    const [agent, to] = [await newAgent({ trxSun: 100n * trx }), stranger()];
    const sent = await pay(agent, to, '12.345678', 'TRX');
    expect(sent).toMatchObject({ status: 200, body: { status: 'pending', amount: '12.345678', nonce: null } });
    const done = await confirmed(sent.body.id);
    const { block, included } = chain.find(done.hash)!;
    expect([done.block_number, toSun(done.fee)]).toEqual([block.number, included.receipt.feeSun]);
    expect(done.fee).toBe('1.1');
    expect([sunOf(to), sunOf(agent.address)]).toEqual([12_345_678n, 100n * trx - 12_345_678n - 1_100_000n]);
  });

  it('pays USDT, once for one Idempotency-Key, with its fee in TRX', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const send = async () => {
      const response = await fetch(`${stack.baseUrl}/api/v1/transactions`, {
        method: 'POST',
        headers: { 'X-API-Key': stack.apiKey, 'Content-Type': 'application/json', 'Idempotency-Key': agent.id },
        body: JSON.stringify({
          ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: NILE_CHAIN },
          ...{ to_address: to, amount: '99.5', token: 'USDT' },
        }),
      });
      return (await response.json()) as { id: string };
    };
    const first = await send();
    expect(await send()).toEqual(first);
    const done = await confirmed(first.id);
    expect(await send()).toEqual(first);
    expect(sentBy(agent.address)).toEqual([done.hash]);
    expect([usdtOf(to), usdtOf(agent.address)]).toEqual([99_500_000n, 900_500_000n]);
    expect(sunOf(agent.address)).toBe(1_000n * trx - toSun(done.fee));
    const { body } = await client.get(`/agents/${agent.id}/balances`);
    const balance = (token: string) => body.data.find((each: { token: string }) => each.token === token);
    expect(balance('USDT')).toMatchObject({ amount: '900.5', available: '900.5', reserved: '0' });
  });

  it('is held to its policies, and told what it cannot pay and where', async () => {
    const agent = await newAgent({ usdtMinor: 100n * trx });
    const limits = { max_transaction_amount: '50', token: 'USDT' };
    await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules: limits });
    expect(await pay(agent, stranger(), '50.000001')).toMatchObject({
      status: 400,
      body: { code: 'policy_violation', details: { rule: 'max_transaction_amount', limit: '50' } },
    });
    const poor = await newAgent({ usdtMinor: 10n * trx });
    expect(await pay(poor, stranger(), '10.000001')).toMatchObject({
      status: 400,
      body: { code: 'insufficient_funds' },
    });
    for (const to of ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8', 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'])
      expect([to, await pay(agent, to, '1')]).toMatchObject([to, { status: 400, body: { code: 'invalid_address' } }]);
    const session = { agent_id: agent.id, chain: NILE_CHAIN, budget_limit: '1', ttl_seconds: 3600 };
    expect(await client.post('/x402/sessions', session)).toMatchObject({
      status: 400,
      body: { code: 'invalid_chain' },
    });
  });

  it('asks a person first where it is to, and can be cancelled until then', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const rules = { threshold: '0', approvers: [treasurer] };
    await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules });
    const [first, second] = [await pay(agent, to, '1'), await pay(agent, to, '2')];
    for (const { body } of [first, second])
      await until(body.id, ({ status_detail }) => status_detail === 'awaiting_approval');
    expect(await client.post(`/transactions/${second.body.id}/cancel`, {})).toMatchObject({
      status: 200,
      body: { status: 'failed', failure_code: 'cancelled', attempts: [] },
    });
    const approved = await fetch(`${stack.baseUrl}/api/v1/transactions/${first.body.id}/approve`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${await stack.token(treasurer)}` },
    });
    expect(approved.status).toBe(200);
    await confirmed(first.body.id);
    expect(usdtOf(to)).toBe(1n * trx);
  });
});

describe('a signed payment on Tron', () => {
  it('can be neither sped up nor cancelled, says why, and is paid when a block comes', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id, hash } = await stuck(agent, to);
    for (const [verb, code] of [
      ['speed-up', 'transaction_not_replaceable'],
      ['cancel', 'transaction_not_cancellable'],
    ] as const) {
      const refused = await client.post(`/transactions/${id}/${verb}`, {});
      expect(refused).toMatchObject({ status: 409, body: { code } });
      expect(refused.body.message).toContain('can be neither replaced nor taken back');
    }
    startMining();
    expect(await confirmed(id)).toMatchObject({ hash });
    await stopMining();
    expect(usdtOf(to)).toBe(10n * trx);
  });

  it('is confirmed once its block is solid, and not before, also where another block takes its place', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id, hash } = await stuck(agent, to);
    chain.produce({ timestampMs: laterThan(Date.now()) });
    await until(id, ({ status_detail }) => status_detail === 'confirming');
    chain.reorg({ depth: 1, include: () => false });
    await until(id, ({ block_number }) => block_number === null);
    chain.produce();
    await until(id, ({ status_detail }) => status_detail === 'confirming');
    solidify();
    expect(await confirmed(id)).toMatchObject({ hash });
    expect(usdtOf(to)).toBe(10n * trx);
  });

  it('fails with its fee where the contract refuses', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    chain.addToken(usdt, { fails: 'REVERT' });
    try {
      const { id, hash } = await stuck(agent, to);
      startMining();
      const done = await ended(id);
      expect(done).toMatchObject({ status: 'failed', failure_code: 'reverted', hash });
      expect(toSun(done.fee)).toBe(chain.find(hash)!.included.receipt.feeSun);
      expect([usdtOf(to), usdtOf(agent.address)]).toEqual([0n, 1_000n * trx]);
    } finally {
      await stopMining();
      chain.addToken(usdt, { fails: undefined });
    }
  });

  it('is dropped when no block took it in its time, pays nobody, and frees its money', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id, expiresAt } = await stuck(agent, to);
    chain.forgetPending();
    solidify({ timestampMs: Date.parse(expiresAt) + provenAfterMs, include: () => false });
    await look(id);
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'failed', failure_code: 'dropped', fee: null });
    expect([usdtOf(to), sentBy(agent.address)]).toEqual([0n, []]);
    const { body } = await client.get(`/agents/${agent.id}/balances`);
    const balance = body.data.find(({ token }: { token: string }) => token === 'USDT');
    expect(balance).toMatchObject({ amount: '1000', available: '1000', reserved: '0' });
  });
});

describe('payments on Tron survive kill -9', () => {
  beforeEach(startMining);
  afterEach(stopMining);

  it.each([
    { step: 'sign', when: 'after' },
    { step: 'broadcast', when: 'after' },
  ] as const)('of the worker $when $step, and are made once', { timeout: 400_000 }, async (point) => {
    const [agent, to] = [await newAgent(), stranger()];
    writePlan(stack.planFile, { victim: 'worker', left: [point] });
    const { hash } = await confirmed((await pay(agent, to, '10')).body.id);
    expect(readPlan(stack.planFile).left).toEqual([]);
    expect([usdtOf(to), sentBy(agent.address)]).toEqual([10n * trx, [hash]]);
  });

  it('of nobody, where the answer to the broadcast is lost', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    stack.tron!.set({ loseBroadcastAnswers: true });
    const { body } = await pay(agent, to, '10');
    await until(body.id, ({ attempts }) => attempts.length === 1);
    await eventually(
      async () => usdtOf(to),
      (paid) => paid > 0n,
      soon,
    );
    stack.tron!.set({});
    const { hash } = await confirmed(body.id);
    expect([usdtOf(to), sentBy(agent.address)]).toEqual([10n * trx, [hash]]);
  });
});

describe('all of it', () => {
  it('was told once a payment, and agrees with limits and holds', async () => {
    const { rows } = await pool.query<{ id: string }>(`select id from transactions where status = 'confirmed'`);
    const ids = rows.map(({ id }) => id).toSorted();
    const told = await eventually(
      async () => receiver.received.map((one) => (verify(secret, one) as { data: { id: string } }).data.id),
      ({ length }) => length >= ids.length,
      soon,
    );
    expect(told.toSorted()).toEqual(ids);
    expect(await findMismatches(pool)).toEqual([]);
  });
});
