import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Address, createTestClient as createNodeClient, erc20Abi, http, publicActions } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { startPaidApi } from '../support/paid-api.ts';
import type { TestTarget } from '../support/target.ts';

const local = 'eip155:31337';
const soonMs = 180_000;

let stack: OwnStack;
let client: TestClient;
let pool: Pool;
let target: TestTarget;

beforeAll(async () => {
  stack = await startOwnStack();
  client = createTestClient(stack);
  target = await startPaidApi({ chain: local, asset: stack.usdcAddress });
  pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await target?.stop();
  await stack?.stop();
});

const node = () =>
  createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl) }).extend(publicActions);
const usdcOf = (owner: Address) =>
  node().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });

async function newAgent(name: string): Promise<{ id: string; address: Address }> {
  const { status, body } = await client.post('/agents', { agent_name: name, chain: local });
  expect(status).toBe(200);
  return { id: body.id, address: body.wallet.address };
}

interface Paid {
  readonly id: string;
  readonly to: Address;
}
/** Asks for a payment of 1 USDC to somebody new. */
async function pay(agent: { id: string }): Promise<Paid> {
  const to = privateKeyToAddress(generatePrivateKey());
  const { status, body } = await client.post('/transactions', {
    ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: local },
    ...{ to_address: to, amount: '1', token: 'USDC' },
  });
  expect(status).toBe(200);
  return { id: body.id, to };
}
const payMany = (agent: { id: string }, count: number) => Promise.all(Array.from({ length: count }, () => pay(agent)));
// biome-ignore lint/suspicious/noExplicitAny: a transaction as on the wire
const until = async (id: string, isRight: (body: any) => boolean) =>
  (
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ status, body }) => status === 200 && isRight(body),
      { timeoutMs: soonMs },
    )
  ).body;
const isConfirmed = (body: { status: string }) => body.status === 'confirmed';
const isSent = ({ attempts }: { attempts: unknown[] }) => attempts.length > 0;

/** An operator's command, as `npm run admin -- …`. */
async function admin(...args: string[]) {
  const file = fileURLToPath(new URL('../../api/admin.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [file, ...args, '--json'], {
    env: {
      PATH: process.env.PATH,
      ...{ PURSER_ENV: 'sandbox', DATABASE_URL: stack.databaseUrl, TEMPORAL_ADDRESS: stack.temporalAddress },
    },
  });
  return JSON.parse(stdout);
}

/** Until two signers have confirmed it, however busy the machine. The third one is waited for by {@link allTold}. */
const patiently = ['--wait', '600'];
/** All three signers know what is frozen. */
const allTold = () =>
  eventually(
    () => admin('frozen'),
    ({ signers_told }) => signers_told === true,
    { timeoutMs: soonMs },
  );

interface Signed {
  readonly transaction_id: string;
  readonly created_at: Date;
}
const signed = async () =>
  (await pool.query<Signed>('select transaction_id, created_at from attempts order by created_at')).rows;

/** Of payments that were signed, those with no place before theirs in the wallet that is held back: the chain takes them. */
async function unhindered(wasSigned: ReadonlySet<string>): Promise<string[]> {
  const { rows } = await pool.query<{ id: string; wallet_id: string }>(
    'select id, wallet_id from transactions where nonce is not null order by wallet_id, nonce::bigint',
  );
  return [...Map.groupBy(rows, (row) => row.wallet_id).values()].flatMap((ofWallet) => {
    const held = ofWallet.findIndex(({ id }) => !wasSigned.has(id));
    return ofWallet.slice(0, held < 0 ? undefined : held).map(({ id }) => id);
  });
}

describe('freeze all, while payments are under way', () => {
  it('signs nothing new within a second, follows what was signed, and goes on with all of it once', {
    timeout: 600_000,
  }, async () => {
    const [agent, other] = [await newAgent('payer'), await newAgent('other')];
    const usual = await until((await pay(agent)).id, isConfirmed);
    const usualMs = Date.parse(usual.updated_at) - Date.parse(usual.created_at);
    // What is sent now is in no block until we let it.
    await node().setAutomine(false);
    const sent = await payMany(agent, 3);
    for (const { id } of sent) await until(id, isSent);

    const under = payMany(other, 20);
    const frozen = await admin('freeze', 'all', '--reason', 'the test of it', ...patiently);
    expect(frozen.next).toBe('Nothing new is signed.');
    const before = await signed();
    const frozenAt = new Date(frozen.frozen.frozen_at).getTime();
    // A signature that was under way is noted a moment later; how long one takes depends on what else the machine does.
    const latest = frozenAt + 1_000 + 3 * usualMs;
    for (const { created_at } of before) expect(created_at.getTime()).toBeLessThan(latest);

    const later = await payMany(agent, 3);
    for (const { id } of later)
      await until(id, ({ notice }) => /^This installation was frozen by its operator .*the test of it/.test(notice));
    const [first] = sent;
    const faster = await client.post(`/transactions/${first!.id}/speed-up`, {});
    expect([faster.status, faster.body.notice]).toEqual([200, expect.stringMatching(/was frozen/)]);

    for (const part of ['worker', 'signer-2'] as const) process.kill(stack.pid(part), 'SIGKILL');
    const underWay = await under;
    const all = [...sent, ...underWay, ...later];
    const wasSigned = new Set(before.map(({ transaction_id }) => transaction_id));
    await node().setAutomine(true);
    await node().mine({ blocks: 1 });
    const free = await unhindered(wasSigned);
    expect(sent.every(({ id }) => free.includes(id))).toBe(true);
    for (const id of free) await until(id, isConfirmed);
    // Whatever waits has looked, also after the new worker came, and was held back.
    const waiting = all.filter(({ id }) => !wasSigned.has(id));
    await eventually(
      async () => (await pool.query('select payment_id from frozen_payments')).rows.map((row) => row.payment_id),
      (ids) => waiting.every(({ id }) => ids.includes(id)),
      { timeoutMs: soonMs },
    );
    expect(stack.restarts('worker')).toBe(1);
    expect(await signed()).toEqual(before);
    for (const { to } of waiting) expect(await usdcOf(to)).toBe(0n);
    const ready = (await (await fetch(`${stack.baseUrl}/readyz`)).json()) as { frozen: boolean };
    expect(ready.frozen).toBe(true);
    expect(waiting.length).toBeGreaterThanOrEqual(3);

    await allTold();
    await admin('unfreeze', 'all', ...patiently);
    await allTold();
    for (const { id } of all) expect(await until(id, isConfirmed)).toMatchObject({ notice: null });
    for (const { to } of all) expect(await usdcOf(to)).toBe(1_000_000n);
    expect(await node().getTransactionCount({ address: agent.address })).toBe(1 + sent.length + later.length);
    expect(await node().getTransactionCount({ address: other.address })).toBe(underWay.length);
    expect(await findMismatches(pool)).toEqual([]);
    const { rows } = await pool.query(
      `select type, count(*)::int from events where type like '%frozen' group by 1 order by 1`,
    );
    expect(rows).toEqual([
      { type: 'account.frozen', count: 1 },
      { type: 'account.unfrozen', count: 1 },
    ]);
  });

  it('a signer that is away is told when it is back, and two suffice to stop', { timeout: 600_000 }, async () => {
    const agent = await newAgent('lonely');
    await stack.halt('signer-3');
    const frozen = await admin('freeze', 'agent', '--id', agent.id, ...patiently);
    expect(frozen.signers.confirmed).toEqual([1, 2]);
    expect(frozen.signers.missing).toEqual([{ party: 3, error: expect.any(String) }]);
    await stack.start('signer-3');
    await allTold();
    const held = await pay(agent);
    await until(held.id, ({ notice }) => /^Agent agent_\w+ was frozen/.test(notice));
    await admin('unfreeze', 'agent', '--id', agent.id);
    await until(held.id, isConfirmed);
  });

  it('questions are answered meanwhile, and payments out of sessions go on as well', { timeout: 600_000 }, async () => {
    const agent = await newAgent('asks');
    const approver = 'treasurer@example.com';
    const policy = await client.post('/policies', {
      ...{ agent_id: agent.id, type: 'human_approval' },
      rules: { threshold: '0.5', approvers: [approver], timeout_seconds: 600 },
    });
    expect(policy.status).toBe(200);
    const session = await client.post('/x402/sessions', {
      ...{ agent_id: agent.id, chain: local, budget_limit: '3', ttl_seconds: 3600 },
    });
    expect(session.status).toBe(200);
    const buy = () =>
      client.post(`/x402/sessions/${session.body.id}/pay`, {
        target_url: `${target.url}/weather?amount=1000000&maxTimeoutSeconds=60`,
      });
    const { body: answered } = await buy();
    const bought = await eventually(
      () => client.get(`/x402/sessions/${session.body.id}/payments/${answered.ledger_id}`),
      ({ body }) => body.status_detail === 'awaiting_approval',
      { timeoutMs: soonMs },
    );
    const paid = await pay(agent);
    const asked = await until(paid.id, ({ approval }) => approval !== null);

    await admin('freeze', 'agent', '--id', agent.id);
    const token = await stack.token(approver);
    for (const id of [bought.body.approval.id, asked.approval.id]) {
      const answer = await fetch(`${stack.baseUrl}/api/v1/approvals/${id}/approve`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
        body: '{}',
      });
      expect(answer.status).toBe(200);
    }
    const refused = await buy();
    expect([refused.status, refused.body.code]).toEqual([400, 'agent_inactive']);
    const waiting = [paid.id, bought.body.ledger_id as string];
    await eventually(
      async () => (await pool.query('select payment_id from frozen_payments')).rows.map((row) => row.payment_id),
      (ids) => waiting.every((id) => ids.includes(id)),
      { timeoutMs: soonMs },
    );
    const { rows } = await pool.query('select auth_nonce, payment_signature from x402_payments where id = $1', [
      waiting[1],
    ]);
    expect(rows).toEqual([{ auth_nonce: null, payment_signature: null }]);

    await admin('unfreeze', 'agent', '--id', agent.id);
    await until(paid.id, isConfirmed);
    await eventually(
      () => client.get(`/x402/sessions/${session.body.id}/payments/${waiting[1]}`),
      ({ body }) => body.status === 'completed' && body.payment_signature !== null,
      { timeoutMs: soonMs },
    );
    expect(await findMismatches(pool)).toEqual([]);
  });
});
