import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { messageNames } from '../../shared/temporal.ts';
import { type BitcoinLedger, createBitcoinLedger, scriptOf, sumOf } from '../support/bitcoin-ledger.ts';
import { payee, payeeKinds } from '../support/bitcoin-payees.ts';
import { type Answer, createTestClient, eventually, type TestClient } from '../support/client.ts';
import { readPlan, writePlan } from '../support/crash-plan.ts';
import type { OwnBitcoin } from '../support/own-bitcoin.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { startReceiver, type TestReceiver, verify } from '../support/receiver.ts';
import { newSecret } from '../support/webhook-rows.ts';

const [confirmations, speedUpAfterBlocks] = [2, 3];
const btc = 100_000_000n;
const treasurer = 'treasurer@example.com';
const blockMs = 300;
const soon = { timeoutMs: 180_000 };

let stack: OwnStack;
let bitcoin: OwnBitcoin;
let client: TestClient;
let pool: Pool;
let temporal: Client;
let receiver: TestReceiver;
const secret = newSecret();

beforeAll(async () => {
  const name = REGTEST_CHAIN.toUpperCase().replace(':', '_');
  stack = await startOwnStack({
    workers: 2,
    bitcoin: true,
    decides: true,
    env: {
      [`PURSER_CONFIRMATIONS_${name}`]: String(confirmations),
      [`PURSER_SPEED_UP_AFTER_BLOCKS_${name}`]: String(speedUpAfterBlocks),
    },
  });
  bitcoin = stack.bitcoin!;
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

/** Makes a block every so often while a test wants that. */
let mining: Promise<void> | undefined;
let isMining = false;
function startMining(): void {
  isMining = true;
  mining = (async () => {
    for (; isMining; await delay(blockMs)) await bitcoin.mine();
  })();
}
async function stopMining(): Promise<void> {
  isMining = false;
  await mining;
}
beforeEach(startMining);
afterEach(stopMining);

interface Agent {
  readonly id: string;
  readonly address: string;
}

/** An agent with a wallet on regtest, and coins of these sizes in it. */
async function newAgent({ coinsSat = [btc] }: { coinsSat?: readonly bigint[] } = {}): Promise<Agent> {
  const { status, body } = await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain: REGTEST_CHAIN });
  expect(status).toBe(200);
  const { address } = body.wallet;
  if (coinsSat.length === 0) return { id: body.id, address };
  await bitcoin.fund(address, coinsSat);
  const inBtc = toBtc(coinsSat.reduce((sum, sat) => sum + sat, 0n));
  await eventually(
    () => balanceOf({ id: body.id, address }),
    ({ amount }) => amount === inBtc,
    soon,
  );
  return { id: body.id, address };
}

const toBtc = (sat: bigint) => (Number(sat) / 1e8).toFixed(8).replace(/\.?0+$/, '');
const toSat = (amount: string) => BigInt(Math.round(Number(amount) * 1e8));

async function balanceOf({ id }: Agent): Promise<{ amount: string; available: string; reserved: string }> {
  const { body } = await client.get(`/agents/${id}/balances`);
  return body.data.find(({ chain }: { chain: string }) => chain === REGTEST_CHAIN);
}

const pay = (agent: Agent, to: string, amount: string): Promise<Answer> =>
  client.post('/transactions', {
    ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: REGTEST_CHAIN },
    ...{ to_address: to, amount, token: 'BTC' },
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

/** The chain as we count it ourselves, up to its newest block. */
async function count(): Promise<BitcoinLedger> {
  const ledger = createBitcoinLedger(bitcoin.rpc);
  await ledger.readUpTo(await bitcoin.height());
  return ledger;
}

interface NodeTransaction {
  readonly vin: readonly { readonly txid: string; readonly vout: number; readonly txinwitness: readonly string[] }[];
  readonly vout: readonly { readonly scriptPubKey: { readonly hex: string } }[];
}
const asked = (hash: string) => bitcoin.rpc<NodeTransaction>('getrawtransaction', hash, 1);
const coinsOf = ({ vin }: NodeTransaction) => vin.map(({ txid, vout }) => `${txid}:${vout}`);
const isWaiting = (hash: string) => bitcoin.waiting().then((hashes) => hashes.includes(hash));

/** A payment whose bytes wait at the node, which makes no block. */
async function stuck(agent: Agent, to: string, amount = '0.1') {
  await stopMining();
  const { status, body } = await pay(agent, to, amount);
  expect(status).toBe(200);
  const { attempts } = await until(body.id, (seen) => seen.attempts.length === 1);
  await eventually(() => isWaiting(attempts[0].hash), Boolean, soon);
  return { id: body.id as string, hash: attempts[0].hash as string, rate: Number(attempts[0].fee_rate) };
}
const attemptsOf = (body: { attempts: { purpose: string; status: string }[] }) =>
  body.attempts.map(({ purpose, status }) => `${purpose} ${status}`);

describe('an agent on Bitcoin', () => {
  it('has an address of its own there, joins several coins, and spends the change next', async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 2n, btc / 2n, btc / 2n] }), payee('p2wpkh')];
    expect(agent.address).toMatch(/^bcrt1q[0-9a-z]{38}$/);
    expect(await balanceOf(agent)).toMatchObject({ amount: '1.5', available: '1.5', reserved: '0' });
    const sent = await pay(agent, to, '1.2');
    expect(sent).toMatchObject({ status: 200, body: { status: 'pending', amount: '1.2', token: 'BTC', nonce: null } });
    const done = await confirmed(sent.body.id);
    expect(done).toMatchObject({ status_detail: 'confirmed', confirmations, approval: null, notice: null });
    const seen = await asked(done.hash);
    expect(seen.vin.map(({ txinwitness }) => txinwitness.length)).toEqual([2, 2, 2]);
    expect(seen.vout.map(({ scriptPubKey }) => scriptPubKey.hex)).toEqual([scriptOf(to), scriptOf(agent.address)]);
    const ledger = await count();
    const [mined] = ledger.sentBy(agent.address);
    expect([toSat(done.fee), done.block_number]).toEqual([mined!.feeSat, mined!.height]);
    expect(ledger.received(to)).toBe((btc * 12n) / 10n);

    const next = await confirmed((await pay(agent, to, '0.1')).body.id);
    expect(coinsOf(await asked(next.hash))).toEqual([`${done.hash}:1`]);
    const left = (btc * 2n) / 10n - toSat(done.fee) - toSat(next.fee);
    expect(await balanceOf(agent)).toMatchObject({ amount: toBtc(left), available: toBtc(left), reserved: '0' });
    expect(sumOf((await count()).coinsOf(agent.address))).toBe(left);
  });

  it('pays every kind of address, each with a coin of its own, at once', async () => {
    const agent = await newAgent({ coinsSat: payeeKinds.map(() => btc / 10n) });
    const recipients = payeeKinds.map((kind) => payee(kind));
    const sent = await Promise.all(recipients.map((to) => pay(agent, to, '0.01')));
    expect(sent.map(({ status }) => status)).toEqual(recipients.map(() => 200));
    const done = await Promise.all(sent.map(({ body }) => confirmed(body.id)));
    const ledger = await count();
    expect(recipients.map(ledger.received)).toEqual(recipients.map(() => btc / 100n));
    const coins = (await Promise.all(done.map(({ hash }) => asked(hash)))).flatMap(coinsOf);
    expect(new Set(coins).size).toBe(coins.length);
  });

  it('has payments wait for change under way, and go on by themselves after each block', async () => {
    const [agent, to] = [await newAgent(), payee('p2tr')];
    await stopMining();
    const sent = await Promise.all(['0.1', '0.2', '0.3'].map((amount) => pay(agent, to, amount)));
    const ids = sent.map(({ body }) => body.id as string);
    await eventually(bitcoin.waiting, ({ length }) => length === 1, soon);
    const details = await Promise.all(ids.map(async (id) => (await client.get(`/transactions/${id}`)).body.attempts));
    expect(details.filter(({ length }) => length > 0)).toHaveLength(1);
    startMining();
    const done = await Promise.all(ids.map((id) => confirmed(id)));
    const ledger = await count();
    expect(ledger.received(to)).toBe((btc * 6n) / 10n);
    expect(ledger.sentBy(agent.address)).toHaveLength(3);
    const fees = done.reduce((sum, { fee }) => sum + toSat(fee), 0n);
    expect(sumOf(ledger.coinsOf(agent.address))).toBe((btc * 4n) / 10n - fees);
  });

  it('pays once for one Idempotency-Key', async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 2n, btc / 2n] }), payee('p2wpkh')];
    const send = async () => {
      const response = await fetch(`${stack.baseUrl}/api/v1/transactions`, {
        method: 'POST',
        headers: { 'X-API-Key': stack.apiKey, 'Content-Type': 'application/json', 'Idempotency-Key': agent.id },
        body: JSON.stringify({
          ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: REGTEST_CHAIN },
          ...{ to_address: to, amount: '0.1', token: 'BTC' },
        }),
      });
      return (await response.json()) as { id: string };
    };
    const first = await send();
    expect(await send()).toEqual(first);
    await confirmed(first.id);
    expect(await send()).toEqual(first);
    expect((await count()).sentBy(agent.address)).toHaveLength(1);
  });

  it('is held to its policies, and told what it cannot pay and where', async () => {
    const [agent, blocked] = [await newAgent(), payee('p2wpkh')];
    const limits = { max_transaction_amount: '0.5', token: 'BTC' };
    const limit = await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules: limits });
    // In capitals, as QR codes have it: the same address.
    const rules = { blocked_addresses: [blocked.toUpperCase()] };
    const block = await client.post('/policies', { agent_id: agent.id, type: 'address_control', rules });
    expect([limit.status, block.status, block.body.rules]).toEqual([200, 200, { blocked_addresses: [blocked] }]);
    expect(await pay(agent, payee('p2wpkh'), '0.50000001')).toMatchObject({
      status: 400,
      body: { code: 'policy_violation', details: { rule: 'max_transaction_amount', limit: '0.5' } },
    });
    expect(await pay(agent, blocked, '0.1')).toMatchObject({
      status: 400,
      body: { code: 'policy_violation', details: { policy_id: block.body.id, rule: 'blocked_addresses' } },
    });
    for (const [to, amount, code] of [
      ['bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', '0.1', 'invalid_address'],
      ['tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', '0.1', 'invalid_address'],
      ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8', '0.1', 'invalid_address'],
      [payee('p2wpkh'), '0.123456789', 'invalid_amount'],
    ] as const)
      expect([to, await pay(agent, to, amount)]).toMatchObject([to, { status: 400, body: { code } }]);
    const poor = await newAgent({ coinsSat: [btc / 10n] });
    const refused = await pay(poor, payee('p2wpkh'), '0.1');
    expect(refused).toMatchObject({ status: 400, body: { code: 'insufficient_funds' } });
    expect(refused.body.message).toContain('0.1 BTC');
  });

  it('asks a person first where it is to, with the money held meanwhile', async () => {
    const [agent, to] = [await newAgent(), payee('p2wsh')];
    const rules = { threshold: '0.05', token: 'BTC', approvers: [treasurer] };
    expect((await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules })).status).toBe(200);
    const { body } = await pay(agent, to, '0.06');
    await until(body.id, ({ status_detail }) => status_detail === 'awaiting_approval');
    const held = await eventually(
      () => balanceOf(agent),
      ({ reserved }) => reserved !== '0',
      soon,
    );
    expect(toSat(held.reserved)).toBeGreaterThan((btc * 6n) / 100n);
    expect(toSat(held.available)).toBe(btc - toSat(held.reserved));
    const approved = await fetch(`${stack.baseUrl}/api/v1/transactions/${body.id}/approve`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${await stack.token(treasurer)}` },
    });
    expect(approved.status).toBe(200);
    expect(await confirmed(body.id)).toMatchObject({ approval: { status: 'approved' } });
    expect((await count()).received(to)).toBe((btc * 6n) / 100n);
  });

  it('cannot open an x402 session there, and is told where it can', async () => {
    const agent = await newAgent({ coinsSat: [] });
    const session = { agent_id: agent.id, chain: REGTEST_CHAIN, budget_limit: '1', ttl_seconds: 3600 };
    const refused = await client.post('/x402/sessions', session);
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_chain' } });
    expect(refused.body.message).toContain('eip155:31337');
  });
});

describe('a payment that no block takes', () => {
  it('is sped up on demand: the same coins at a higher rate, one of both mined', async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 2n, btc / 2n] }), payee('p2wpkh')];
    const { id, hash, rate } = await stuck(agent, to, '0.6');
    expect(await client.post(`/transactions/${id}/speed-up`, {})).toMatchObject({ status: 200 });
    const { attempts } = await until(id, (seen) => seen.attempts.length === 2);
    expect(Number(attempts[1].fee_rate)).toBeGreaterThan(rate);
    await eventually(bitcoin.waiting, (hashes) => hashes.join() === attempts[1].hash, soon);
    expect(attempts[1].hash).not.toBe(hash);
    startMining();
    const done = await confirmed(id);
    expect([done.hash, attemptsOf(done)]).toEqual([attempts[1].hash, ['payment replaced', 'payment mined']]);
    const ledger = await count();
    expect(ledger.sentBy(agent.address)).toHaveLength(1);
    expect(ledger.received(to)).toBe((btc * 6n) / 10n);
    expect(await client.post(`/transactions/${id}/speed-up`, {})).toMatchObject({ status: 409 });
  });

  it('is cancelled on demand: its coins come back as one, less the fee', async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 2n, btc / 2n] }), payee('p2wpkh')];
    const { id } = await stuck(agent, to, '0.6');
    expect(await client.post(`/transactions/${id}/cancel`, {})).toMatchObject({ status: 200 });
    const { attempts } = await until(id, (seen) => seen.attempts.length === 2);
    await eventually(bitcoin.waiting, (hashes) => hashes.join() === attempts[1].hash, soon);
    startMining();
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'failed', failure_code: 'cancelled', hash: attempts[1].hash });
    expect(attemptsOf(done)).toEqual(['payment replaced', 'cancel mined']);
    const ledger = await count();
    expect(ledger.received(to)).toBe(0n);
    const left = btc - toSat(done.fee);
    expect(ledger.coinsOf(agent.address).map(({ valueSat }) => valueSat)).toEqual([left]);
    expect(await balanceOf(agent)).toMatchObject({ amount: toBtc(left), available: toBtc(left), reserved: '0' });
    await confirmed((await pay(agent, to, '0.9')).body.id);
  });

  it('offers more by itself after some blocks', async () => {
    const [agent, to] = [await newAgent(), payee('p2pkh')];
    const { id, rate } = await stuck(agent, to);
    for (let block = 0; block <= speedUpAfterBlocks; block += 1) {
      await bitcoin.mineEmpty();
      const height = await bitcoin.height();
      const head = () => pool.query('select number from chain_heads where chain = $1', [REGTEST_CHAIN]);
      await eventually(head, ({ rows }) => Number(rows[0]?.number) >= height, soon);
    }
    const { attempts } = await until(id, (seen) => seen.attempts.length >= 2);
    expect(Number(attempts[1].fee_rate)).toBeGreaterThan(rate);
    await eventually(bitcoin.waiting, (hashes) => hashes.join() === attempts.at(-1).hash, soon);
    startMining();
    expect((await confirmed(id)).hash).toBe(attempts.at(-1).hash);
    expect((await count()).received(to)).toBe(btc / 10n);
  });

  it('is not sped up where its change cannot pay for it, and says so', async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 10n + 400n] }), payee('p2wpkh')];
    const { id, hash } = await stuck(agent, to);
    await client.post(`/transactions/${id}/speed-up`, {});
    const seen = await until(id, ({ notice }) => notice !== null);
    expect([seen.notice, seen.attempts.length]).toEqual([expect.stringContaining('sat too little'), 1]);
    startMining();
    expect((await confirmed(id)).hash).toBe(hash);
  });
});

describe('a payment that nodes refuse as too cheap when it is first sent', () => {
  /** As Bitcoin Core does behind an Esplora server. */
  const tooCheap = (wantedSat: number) => {
    const error = { code: -26, message: `min relay fee not met, 282 < ${wantedSat}` };
    return { status: 400, body: `sendrawtransaction RPC error: ${JSON.stringify(error)}` };
  };
  afterEach(() => bitcoin.proxy.set({}));

  it('is replaced by itself by one that offers what nodes ask for, and paid once', async () => {
    const [agent, to] = [await newAgent(), payee('p2wpkh')];
    let first: string | undefined;
    bitcoin.proxy.set({
      instead(path, body) {
        if (path !== '/tx') return undefined;
        first ??= body;
        return body === first ? tooCheap(2820) : undefined;
      },
    });
    const done = await confirmed((await pay(agent, to, '0.1')).body.id);
    expect(attemptsOf(done)).toEqual(['payment replaced', 'payment mined']);
    expect(Number(done.attempts[1].fee_rate)).toBeGreaterThanOrEqual(20);
    expect([done.hash, done.notice]).toEqual([done.attempts[1].hash, null]);
    const ledger = await count();
    expect([ledger.received(to), ledger.sentBy(agent.address).length]).toEqual([btc / 10n, 1]);
  });

  it('is kept where that is above the ceiling, says so, and can be cancelled', async () => {
    const [agent, to] = [await newAgent(), payee('p2wpkh')];
    bitcoin.proxy.set({ instead: (path) => (path === '/tx' ? tooCheap(99_999_999) : undefined) });
    const { id } = (await pay(agent, to, '0.1')).body;
    const kept = await until(id, ({ notice }) => notice?.includes('the ceiling is 500000 sat'));
    expect([kept.status, kept.attempts.length]).toEqual(['pending', 1]);
    expect(await client.post(`/transactions/${id}/cancel`, {})).toMatchObject({ status: 200 });
    await until(id, ({ attempts }) => attempts.length === 2);
    bitcoin.proxy.set({});
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'failed', failure_code: 'cancelled', hash: done.attempts[1].hash });
    expect(attemptsOf(done)).toEqual(['payment replaced', 'cancel mined']);
    expect((await count()).received(to)).toBe(0n);
  });
});

describe('a payment in a block that others replace', () => {
  it('goes back to waiting, is confirmed again, and is told once', async () => {
    const [agent, to] = [await newAgent(), payee('p2wpkh')];
    const { id, hash } = await stuck(agent, to);
    await bitcoin.mine();
    await until(id, ({ status_detail, confirmations: seen }) => status_detail === 'confirming' && seen === 1);
    await bitcoin.reorg(1);
    await until(id, (seen) => seen.block_number === null && seen.confirmations === 0);
    await eventually(() => isWaiting(hash), Boolean, soon);
    await bitcoin.mine();
    await until(id, (seen) => seen.confirmations === 1);
    startMining();
    expect(await confirmed(id)).toMatchObject({ hash });
    expect((await count()).received(to)).toBe(btc / 10n);
  });
});

describe('payments on Bitcoin survive kill -9', () => {
  it('of the worker between signing and sending, and are made once', { timeout: 400_000 }, async () => {
    const [agent, to] = [await newAgent({ coinsSat: [btc / 2n, btc / 2n] }), payee('p2wpkh')];
    writePlan(stack.planFile, { victim: 'worker', left: [{ step: 'sign', when: 'after' }] });
    await confirmed((await pay(agent, to, '0.6')).body.id);
    expect(readPlan(stack.planFile).left).toEqual([]);
    const ledger = await count();
    expect([ledger.received(to), ledger.sentBy(agent.address).length]).toEqual([(btc * 6n) / 10n, 1]);
  });

  it('of the node, which forgets what waited: the bytes are sent again', { timeout: 400_000 }, async () => {
    const [agent, to] = [await newAgent(), payee('p2wpkh')];
    const { id, hash } = await stuck(agent, to);
    process.kill(stack.pid('btcd'), 'SIGKILL');
    await eventually(bitcoin.waiting, ({ length }) => length === 0, soon);
    // As it does by itself after half a minute without news.
    await temporal.workflow.getHandle(id).signal(messageNames.replace);
    await eventually(() => isWaiting(hash), Boolean, soon);
    startMining();
    expect(await confirmed(id)).toMatchObject({ hash });
    expect((await count()).received(to)).toBe(btc / 10n);
  });
});

describe('eight payments at once of one wallet, which two workers carry', () => {
  it('never share a coin, and add up to the satoshi', { timeout: 400_000 }, async () => {
    const agent = await newAgent({ coinsSat: Array(6).fill(btc / 5n) });
    const recipients = Array.from({ length: 8 }, () => payee('p2wpkh'));
    const sent = await Promise.all(recipients.map((to) => pay(agent, to, '0.05')));
    const done = await Promise.all(sent.map(({ body }) => confirmed(body.id)));
    const ledger = await count();
    expect(recipients.map(ledger.received)).toEqual(recipients.map(() => btc / 20n));
    const fees = done.reduce((sum, { fee }) => sum + toSat(fee), 0n);
    const left = (btc * 8n) / 10n - fees;
    expect(sumOf(ledger.coinsOf(agent.address))).toBe(left);
    expect(await balanceOf(agent)).toMatchObject({ amount: toBtc(left), available: toBtc(left), reserved: '0' });
  });
});

describe('all of it', () => {
  it('was told once a payment, agrees with limits and holds, and leaves no coin locked', async () => {
    const { rows } = await pool.query<{ id: string }>(`select id from transactions where status = 'confirmed'`);
    const ids = rows.map(({ id }) => id).toSorted();
    const told = await eventually(
      async () => receiver.received.map((one) => (verify(secret, one) as { data: { id: string } }).data.id),
      ({ length }) => length >= ids.length,
      soon,
    );
    expect(told.toSorted()).toEqual(ids);
    const events = await pool.query(`select resource_id from events where type = 'payment.completed' order by 1`);
    expect(events.rows.map(({ resource_id }) => resource_id).toSorted()).toEqual(ids);
    expect(await findMismatches(pool)).toEqual([]);
    // Every coin that a payment has, it has spent.
    const ledger = await count();
    const { rows: wallets } = await pool.query<{ address: string }>(
      `select from_address as address from transactions group by 1`,
    );
    const unspent = new Set(
      wallets.flatMap(({ address }) => ledger.coinsOf(address).map(({ txid, vout }) => `${txid}:${vout}`)),
    );
    const { rows: taken } = await pool.query<{ coin: string }>(`select txid || ':' || vout as coin from coins`);
    expect(taken.filter(({ coin }) => unspent.has(coin))).toEqual([]);
  });
});
