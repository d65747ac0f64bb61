import { Client, Connection } from '@temporalio/client';
import {
  type Address,
  createTestClient as createNodeClient,
  createPublicClient,
  erc20Abi,
  type Hash,
  http,
  parseEther,
} from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const local = 'eip155:31337';
const speedUpAfterBlocks = 3;
const soonMs = 180_000;

let stack: OwnStack;
let client: TestClient;
let pool: Pool;
let temporal: Client;

beforeAll(async () => {
  const env = { PURSER_SPEED_UP_AFTER_BLOCKS_EIP155_31337: String(speedUpAfterBlocks) };
  stack = await startOwnStack({ workers: 2, decides: true, env });
  client = createTestClient(stack);
  pool = createPool({ url: stack.databaseUrl, application: 'test' });
  temporal = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) });
});
afterAll(async () => {
  await temporal?.connection.close();
  await pool?.end();
  await stack?.stop();
});
afterEach(() => node().setAutomine(true));

const chain = () => createPublicClient({ transport: http(stack.rpcUrl) });
const node = () => createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl) });
const usdcOf = (owner: Address) =>
  chain().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });
const stranger = () => privateKeyToAddress(generatePrivateKey());

async function newAgent(): Promise<{ id: string; address: Address }> {
  const { status, body } = await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain: local });
  expect(status).toBe(200);
  return { id: body.id, address: body.wallet.address };
}
const pay = async (
  agentId: string,
  { to, amount = '1', token = 'USDC' }: { to: string; amount?: string; token?: string },
) =>
  client.post('/transactions', {
    agent_id: agentId,
    direction: 'outbound',
    type: 'transfer',
    chain: local,
    to_address: to,
    amount,
    token,
  });
// biome-ignore lint/suspicious/noExplicitAny: a transaction as on the wire
const until = async (id: string, isRight: (body: any) => boolean, timeoutMs = soonMs) =>
  (
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ body }) => isRight(body),
      { timeoutMs },
    )
  ).body;
const ended = (id: string) => until(id, ({ status }) => status !== 'pending');
const sentBytes = (id: string, count = 1) => until(id, ({ attempts }) => attempts.length === count);
const isWaiting = (hash: Hash) =>
  chain()
    .getTransaction({ hash })
    .then(
      ({ blockNumber }) => blockNumber === null,
      () => false,
    );
/** A payment whose bytes wait at the node, which mines nothing. */
async function stuck(agentId: string, to: string) {
  await node().setAutomine(false);
  const { status, body } = await pay(agentId, { to });
  expect(status).toBe(200);
  const { attempts } = await sentBytes(body.id);
  await eventually(() => isWaiting(attempts[0].hash), Boolean, { timeoutMs: soonMs });
  return { id: body.id as string, hash: attempts[0].hash as Hash };
}
const attemptsOf = (body: { attempts: { hash: string; purpose: string; status: string }[] }) =>
  body.attempts.map(({ purpose, status }) => `${purpose} ${status}`);

describe('a payment that no block takes', () => {
  it('is sped up on demand: same nonce, both hashes kept, one mined, paid once', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id, hash } = await stuck(agent.id, to);
    const asked = await client.post(`/transactions/${id}/speed-up`, {});
    expect(asked).toMatchObject({ status: 200, body: { id, status: 'pending' } });
    const waiting = await sentBytes(id, 2);
    expect(waiting.nonce).toBe(0);
    const [first, second] = waiting.attempts;
    expect(first.hash).toBe(hash);
    expect(BigInt(second.max_fee_per_gas)).toBeGreaterThanOrEqual((BigInt(first.max_fee_per_gas) * 11n) / 10n);
    await eventually(() => isWaiting(second.hash), Boolean, { timeoutMs: soonMs });
    await node().mine({ blocks: 1 });
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'confirmed', hash: second.hash });
    expect(attemptsOf(done)).toEqual(['payment replaced', 'payment mined']);
    expect(await usdcOf(to)).toBe(1_000_000n);
    expect(await client.post(`/transactions/${id}/speed-up`, {})).toMatchObject({
      status: 409,
      body: { code: 'transaction_not_replaceable', details: { status: 'confirmed' } },
    });
  });

  it('F8 is cancelled on demand: nothing is transferred, the nonce is used, and the money free again', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id } = await stuck(agent.id, to);
    expect(await client.post(`/transactions/${id}/cancel`, {})).toMatchObject({
      status: 200,
      body: { status: 'pending' },
    });
    const { attempts } = await sentBytes(id, 2);
    await eventually(() => isWaiting(attempts[1].hash), Boolean, { timeoutMs: soonMs });
    await node().mine({ blocks: 1 });
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'failed', failure_code: 'cancelled', hash: attempts[1].hash });
    expect(done.fee).toMatch(/^0\.0/);
    expect(attemptsOf(done)).toEqual(['payment replaced', 'cancel mined']);
    expect(await usdcOf(to)).toBe(0n);
    await node().setAutomine(true);
    const next = await pay(agent.id, { to, amount: '10000' });
    expect(await ended(next.body.id)).toMatchObject({ status: 'confirmed', nonce: 1 });
    expect(await client.post(`/transactions/${id}/cancel`, {})).toMatchObject({
      status: 409,
      body: { code: 'transaction_not_cancellable', details: { status: 'failed' } },
    });
  });

  it('offers more by itself after some blocks', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const { id, hash } = await stuck(agent.id, to);
    await node().dropTransaction({ hash });
    for (let block = 0; block < speedUpAfterBlocks + 1; block += 1) {
      const { rows } = await pool.query('select number from chain_heads where chain = $1', [local]);
      await node().mine({ blocks: 1 });
      await eventually(
        () => pool.query('select number from chain_heads where chain = $1', [local]),
        (seen) => Number(seen.rows[0].number) > Number(rows[0]?.number ?? 0),
        { timeoutMs: soonMs },
      );
    }
    const { attempts } = await sentBytes(id, 2);
    await eventually(() => isWaiting(attempts[1].hash), Boolean, { timeoutMs: soonMs });
    await node().mine({ blocks: 1 });
    expect(await ended(id)).toMatchObject({ status: 'confirmed', hash: attempts[1].hash });
    expect(await usdcOf(to)).toBe(1_000_000n);
  });

  it('F8 cancelled by ten at once while it is mined: one end, as the chain has it', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [agent, to] = [await newAgent(), stranger()];
      const { id } = await stuck(agent.id, to);
      const answers = await Promise.all([
        ...Array.from({ length: 10 }, () => client.post(`/transactions/${id}/cancel`, {})),
        node()
          .setAutomine(true)
          .then(() => node().mine({ blocks: 1 })),
      ]);
      for (const answer of answers.slice(0, 10)) expect([200, 409]).toContain((answer as { status: number }).status);
      const done = await ended(id);
      const paid = await usdcOf(to);
      expect([`confirmed 1000000`, `failed 0`]).toContain(`${done.status} ${paid}`);
      expect(await chain().getTransactionCount({ address: agent.address })).toBe(1);
    }
  });

  it('cancels at once what waits for a person', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const rules = { threshold: '0', approvers: ['ann@example.com'] };
    expect(await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules })).toMatchObject({
      status: 200,
    });
    const { body } = await pay(agent.id, { to });
    await until(body.id, ({ status_detail }) => status_detail === 'awaiting_approval');
    const { body: cancelled } = await client.post(`/transactions/${body.id}/cancel`, {});
    expect(cancelled).toMatchObject({
      status: 'failed',
      failure_code: 'cancelled',
      approval: { status: 'cancelled' },
      attempts: [],
    });
    await eventually(
      () => temporal.workflow.getHandle(body.id).describe(),
      ({ status }) => status.name === 'COMPLETED',
      { timeoutMs: soonMs },
    );
  });
});

describe('a wallet without money for fees', () => {
  it('F12 has its token payment wait, says so, and pays once money has come', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    await node().setBalance({ address: agent.address, value: 0n });
    const { status, body } = await pay(agent.id, { to });
    expect({ status, pending: body.status }).toEqual({ status: 200, pending: 'pending' });
    const waiting = await until(body.id, ({ notice }) => notice !== null);
    expect(waiting.notice).toMatch(/^The wallet holds 0 ETH, but a fee of up to .* ETH/);
    const { rows } = await pool.query(`select data from events where type = 'agent.low_gas' and agent_id = $1`, [
      agent.id,
    ]);
    expect(rows).toEqual([{ data: expect.objectContaining({ transaction_id: body.id, address: agent.address }) }]);
    await node().setBalance({ address: agent.address, value: parseEther('1') });
    expect(await ended(body.id)).toMatchObject({ status: 'confirmed', notice: null });
    expect(await usdcOf(to)).toBe(1_000_000n);
  });

  it('looks at its pace, however often it is hinted at, and ends at once when a person says no', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const rules = { threshold: '0', approvers: ['ann@example.com'] };
    await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules });
    await node().setBalance({ address: agent.address, value: 0n });
    const { body } = await pay(agent.id, { to });
    await until(body.id, ({ notice }) => notice !== null);
    const handle = temporal.workflow.getHandle(body.id);
    await handle.signal('lookAgain');
    const looks = async () => {
      const { events = [] } = await handle.fetchHistory();
      const signalled = events!.findIndex((each) => each.workflowExecutionSignaledEventAttributes);
      return events!.filter(
        (each, index) =>
          index > signalled && each.activityTaskScheduledEventAttributes?.activityType?.name === 'prepare',
      );
    };
    const seen = await eventually(looks, ({ length }) => length >= 3, { timeoutMs: soonMs });
    const [second, third] = seen.slice(1).map(({ eventTime }) => Number(eventTime!.seconds) + eventTime!.nanos! / 1e9);
    expect(third! - second!).toBeGreaterThan(1.5);
    const rejected = await fetch(`${stack.baseUrl}/api/v1/transactions/${body.id}/reject`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${await stack.token('ann@example.com')}`, 'Content-Type': 'application/json' },
      body: '{}',
    });
    expect(rejected.status).toBe(200);
    expect(await ended(body.id)).toMatchObject({ failure_code: 'approval_rejected' });
  });

  it('refuses early what is sure not to work: a transfer of the coin itself, or more than there is', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    for (const token of ['ETH', 'USDC'])
      expect(await pay(agent.id, { to, amount: '100000', token })).toMatchObject({
        status: 400,
        body: { code: 'insufficient_funds' },
      });
  });
});

describe('500 payments of one agent', () => {
  it('F19 16 in flight at most, no gap, each paid once; nobody waits behind one without money', async () => {
    const [agent, poor, to] = [await newAgent(), await newAgent(), stranger()];
    await node().setBalance({ address: poor.address, value: 0n });
    const unfunded = await pay(poor.id, { to });
    const count = 500;
    const ids: string[] = [];
    const inFlight = async () => {
      const { rows } = await pool.query<{ n: number }>(
        `select count(*)::int as n from slots s join wallets w on w.id = s.wallet_id
         where w.agent_id = $1 and s.closed_at is null`,
        [agent.id],
      );
      return rows[0]!.n;
    };
    let most = 0;
    await node().setAutomine(false);
    const posting = Array.from({ length: 10 }, async () => {
      while (ids.length < count) {
        const at = ids.push('') - 1;
        const { status, body } = await pay(agent.id, { to, amount: '0.01' });
        expect(status).toBe(200);
        ids[at] = body.id;
        most = Math.max(most, await inFlight());
      }
    });
    // As many as may be, for none is mined.
    await eventually(inFlight, (flying) => flying === 16, { timeoutMs: soonMs });
    await node().setAutomine(true);
    await node().mine({ blocks: 1 });
    await Promise.all(posting);
    await eventually(
      async () => {
        most = Math.max(most, await inFlight());
        const { rows } = await pool.query(
          `select status, count(*)::int as n from transactions where agent_id = $1 group by status order by status`,
          [agent.id],
        );
        return rows;
      },
      (rows) => rows.length === 1 && rows[0].status === 'confirmed' && rows[0].n === ids.length,
      { timeoutMs: 600_000 },
    );
    expect(most).toBeLessThanOrEqual(16);
    expect(await chain().getTransactionCount({ address: agent.address })).toBe(ids.length);
    expect(await usdcOf(to)).toBe(10_000n * BigInt(ids.length));
    const { rows } = await pool.query('select nonce from transactions where agent_id = $1 order by nonce', [agent.id]);
    expect(rows.map(({ nonce }) => Number(nonce))).toEqual(ids.map((_, index) => index));
    expect((await client.get(`/transactions/${unfunded.body.id}`)).body).toMatchObject({
      status: 'pending',
      nonce: null,
    });
    await client.post(`/transactions/${unfunded.body.id}/cancel`, {});
    expect(await findMismatches(pool)).toEqual([]);
  }, 900_000);
});
