import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Address, createTestClient as createNodeClient, erc20Abi, http, publicActions, walletActions } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import type { RestoreFinding } from '../../shared/domain/restore.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { argsOf, facilitator, payee, startPaidApi, transferWithAuthorization } from '../support/paid-api.ts';
import type { TestTarget } from '../support/target.ts';

const local = 'eip155:31337';
const approver = 'treasurer@example.com';
const soonMs = 180_000;

let stack: OwnStack;
let client: TestClient;
let target: TestTarget;
let pool: Pool;

beforeAll(async () => {
  stack = await startOwnStack({ decides: true });
  client = createTestClient(stack);
  target = await startPaidApi({ chain: local, asset: stack.usdcAddress });
  pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await target?.stop();
  await stack?.stop();
});
afterEach(() => node().setAutomine(true));

const node = () =>
  createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl), account: facilitator })
    .extend(publicActions)
    .extend(walletActions);
const usdcOf = (owner: Address) =>
  node().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });

interface Agent {
  readonly id: string;
  readonly address: Address;
}
interface Paid {
  readonly id: string;
  readonly to: Address;
}

let agents = 0;
async function newAgent(): Promise<Agent> {
  agents += 1;
  const { status, body } = await client.post('/agents', { agent_name: `agent ${agents}`, chain: local });
  expect(status).toBe(200);
  return { id: body.id, address: body.wallet.address };
}

/** Asks for a payment to somebody new. */
async function pay(agent: Agent, amount = '1'): Promise<Paid> {
  const to = privateKeyToAddress(generatePrivateKey());
  const { status, body } = await client.post('/transactions', {
    ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: local },
    ...{ to_address: to, amount, token: 'USDC' },
  });
  expect(status).toBe(200);
  return { id: body.id, to };
}
// biome-ignore lint/suspicious/noExplicitAny: a transaction as on the wire
const until = async (id: string, isRight: (body: any) => boolean) =>
  (
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ status, body }) => status === 200 && isRight(body),
      { timeoutMs: soonMs },
    )
  ).body;
const isIn = (status: string) => (body: { status: string }) => body.status === status;
const isSent = ({ attempts }: { attempts: unknown[] }) => attempts.length > 0;

/** A payment that waits for a person. */
async function ask(agent: Agent): Promise<Paid & { approvalId: string }> {
  const paid = await pay(agent, '12.5');
  const { approval } = await until(paid.id, ({ status_detail }) => status_detail === 'awaiting_approval');
  return { ...paid, approvalId: approval.id };
}
async function decide(approvalId: string, verb: 'approve' | 'reject'): Promise<void> {
  const response = await fetch(`${stack.baseUrl}/api/v1/approvals/${approvalId}/${verb}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${await stack.token(approver)}`, 'Content-Type': 'application/json' },
    body: '{}',
  });
  expect(response.status).toBe(200);
}

async function openSession(agent: Agent): Promise<string> {
  const made = await client.post('/x402/sessions', {
    ...{ agent_id: agent.id, chain: local, budget_limit: '1', ttl_seconds: 3600 },
  });
  expect(made.status).toBe(200);
  return made.body.id;
}
async function payX402(sessionId: string): Promise<{ id: string; header: string }> {
  const url = `${target.url}/weather?amount=10000&maxTimeoutSeconds=60`;
  const { status, body } = await client.post(`/x402/sessions/${sessionId}/pay`, { target_url: url });
  expect([status, body.status]).toEqual([200, 'completed']);
  return { id: body.ledger_id, header: body.payment_signature };
}
/** Has the token carry out what a header allows. */
async function use(header: string): Promise<void> {
  const hash = await node().writeContract({
    ...{ address: stack.usdcAddress, abi: transferWithAuthorization, functionName: 'transferWithAuthorization' },
    args: argsOf(header),
  });
  expect((await node().waitForTransactionReceipt({ hash })).status).toBe('success');
}

/** What a command of the operator prints, when it ends with this status. */
async function runScript(script: string, args: string[], env: NodeJS.ProcessEnv, status = 0): Promise<unknown> {
  const file = fileURLToPath(new URL(`../../${script}`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [file, ...args, '--json'], {
    env: { PATH: process.env.PATH, ...env },
  }).catch((error: { code?: number; stdout: string; stderr: string }) => {
    if (error.code === status) return error;
    // What was found is printed also where it stands against going on.
    throw new Error(`${script} ${args.join(' ')} failed: ${error.stdout} ${error.stderr}`);
  });
  return JSON.parse(stdout);
}

const dataOf = (name: string) => join(stack.home, name);
/** With owners and modes. */
const copy = (from: string, to: string) => execFileSync('cp', ['-a', from, to]);
/** A copy of the database's files, while nothing writes. */
async function backUpDatabase(): Promise<void> {
  await stack.halt('postgres');
  copy(dataOf('postgres/data'), dataOf('backup'));
  await stack.start('postgres');
}
async function restoreDatabase(): Promise<void> {
  await stack.halt('api');
  await stack.halt('worker');
  await stack.halt('postgres');
  rmSync(dataOf('postgres/data'), { recursive: true });
  copy(dataOf('backup'), dataOf('postgres/data'));
  await stack.start('postgres');
}

/** An operator's command, as `npm run admin -- …`. */
const admin = (args: string[], status = 0) =>
  runScript(
    'api/admin.ts',
    [...args, '--json'],
    { DATABASE_URL: stack.databaseUrl, PURSER_ENV: 'sandbox', TEMPORAL_ADDRESS: stack.temporalAddress },
    status,
  );
/** What `reconcile` prints. */
interface Reconciled {
  readonly repaired: readonly RestoreFinding[];
  readonly to_decide: readonly RestoreFinding[];
  readonly before_unfreezing: readonly RestoreFinding[];
  readonly unfrozen: boolean;
  readonly next: string;
}
/** Where the database lost nothing: what is frozen for the comparison goes on afterwards. */
async function reconcileKept(): Promise<Reconciled> {
  const told = (await admin(['reconcile', '--database', 'kept'])) as Reconciled;
  expect([told.before_unfreezing, told.unfrozen]).toEqual([[], true]);
  return told;
}
/** After a restore: a person has frozen all before, so a person lifts it. */
async function reconcileRestored(): Promise<Reconciled> {
  const told = (await admin(['reconcile'], 1)) as Reconciled;
  expect([told.before_unfreezing, told.unfrozen]).toEqual([[], false]);
  expect(told.next).toMatch(/by order of operator .*\(restore\)/);
  await admin(['unfreeze', 'all']);
  return told;
}
/** What is done each time, whatever was lost. */
const usual: ReadonlySet<string> = new Set(['indexes_skipped', 'spare_keys_retired', 'runs_ended']);
const unusual = ({ repaired, to_decide }: Reconciled) =>
  [...repaired, ...to_decide].filter(({ what }) => !usual.has(what));
const found = (told: Reconciled, what: RestoreFinding['what']) =>
  unusual(told)
    .filter((each) => each.what === what)
    .map(({ id }) => id);

describe('after a loss, everything goes on and nothing is paid twice', () => {
  it('of the newest hour of the database, while chain, signers and Temporal went on', {
    timeout: 600_000,
  }, async () => {
    const [steady, stalled, hurried, stopped, careful] = [
      ...[await newAgent(), await newAgent(), await newAgent(), await newAgent(), await newAgent()],
    ] as [Agent, Agent, Agent, Agent, Agent];
    const rules = { threshold: '10', approvers: [approver], timeout_seconds: 3600 };
    expect((await client.post('/policies', { agent_id: careful.id, type: 'human_approval', rules })).status).toBe(200);
    const done = await pay(steady);
    await until(done.id, isIn('confirmed'));
    const approved = await ask(careful);
    const rejected = await ask(careful);
    const undecided = await ask(careful);
    const oldSession = await openSession(steady);
    await node().setAutomine(false);
    const spedUp = await pay(hurried);
    const cancelled = await pay(stopped);
    const sent = await pay(steady);
    for (const { id } of [spedUp, cancelled, sent]) await until(id, isSent);
    await stack.halt('signer-2');
    await stack.halt('signer-3');
    const unsigned = await pay(stalled);
    await until(unsigned.id, ({ status_detail }) => status_detail === 'signing');

    await backUpDatabase();

    await stack.start('signer-2');
    await stack.start('signer-3');
    await until(unsigned.id, isSent);
    expect((await client.post(`/transactions/${spedUp.id}/speed-up`, {})).status).toBe(200);
    expect((await client.post(`/transactions/${cancelled.id}/cancel`, {})).status).toBe(200);
    for (const { id } of [spedUp, cancelled]) await until(id, ({ attempts }) => attempts.length === 2);
    await node().mine({ blocks: 1 });
    await node().setAutomine(true);
    for (const { id } of [sent, spedUp, unsigned]) await until(id, isIn('confirmed'));
    await until(cancelled.id, isIn('failed'));
    await decide(approved.approvalId, 'approve');
    await decide(rejected.approvalId, 'reject');
    await until(approved.id, isIn('confirmed'));
    await until(rejected.id, isIn('failed'));
    const lost = [await pay(steady), await pay(steady)];
    const lostAgent = await newAgent();
    lost.push(await pay(lostAgent));
    for (const { id } of lost) await until(id, isIn('confirmed'));
    const lostRequest = await ask(careful);
    const paidBefore = await usdcOf(payee);
    const [used, unused] = [await payX402(oldSession), await payX402(oldSession)];
    const lostSession = await openSession(lostAgent);
    const usedOfLost = await payX402(lostSession);
    await use(used.header);
    await use(usedOfLost.header);
    // Given out, and money was sent to it; it never paid.
    const idle = await newAgent();
    await eventually(
      () => usdcOf(idle.address),
      (minor) => minor > 0n,
      { timeoutMs: soonMs },
    );
    await node().setAutomine(false);
    const lostInFlight = await pay(steady);
    await until(lostInFlight.id, isSent);

    await restoreDatabase();
    await admin(['freeze', 'all', '--reason', 'restore', '--wait', '0']);
    await stack.start('worker');
    const result = await reconcileRestored();
    await stack.start('api');

    expect(found(result, 'payment_recreated').toSorted()).toEqual(
      [...lost, lostInFlight, used, unused, usedOfLost].map(({ id }) => id).toSorted(),
    );
    expect(found(result, 'agent_recreated')).toEqual([lostAgent.id]);
    const [idleId, ...more] = found(result, 'wallet_found');
    expect(more).toEqual([]);
    expect((await client.get(`/agents/${idleId}`)).body).toMatchObject({
      ...{ status: 'inactive', wallet: { address: idle.address } },
    });
    expect(found(result, 'payment_ended')).toEqual([rejected.id]);
    expect(found(result, 'request_lost').toSorted()).toEqual([lostRequest.id, lostSession].toSorted());

    await node().mine({ blocks: 1 });
    await node().setAutomine(true);
    for (const { id } of [done, approved, spedUp, sent, unsigned, ...lost, lostInFlight])
      await until(id, isIn('confirmed'));
    for (const { id } of [cancelled, rejected]) await until(id, isIn('failed'));
    await decide(undecided.approvalId, 'approve');
    const again = await pay(steady);
    for (const { id } of [undecided, again]) await until(id, isIn('confirmed'));
    for (const { to } of [done, spedUp, sent, unsigned, ...lost, lostInFlight, again])
      expect(await usdcOf(to)).toBe(1_000_000n);
    for (const { to } of [approved, undecided]) expect(await usdcOf(to)).toBe(12_500_000n);
    for (const { to } of [cancelled, rejected, lostRequest]) expect(await usdcOf(to)).toBe(0n);
    expect((await usdcOf(payee)) - paidBefore).toBe(20_000n);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('of everything that Temporal knew', { timeout: 600_000 }, async () => {
    const [steady, careful] = [await newAgent(), await newAgent()];
    const rules = { threshold: '10', approvers: [approver], timeout_seconds: 3600 };
    expect((await client.post('/policies', { agent_id: careful.id, type: 'human_approval', rules })).status).toBe(200);
    const [asked, decided] = [await ask(careful), await ask(careful)];
    const session = await openSession(steady);
    const before = await usdcOf(payee);
    const handedOut = await payX402(session);
    await node().setAutomine(false);
    const sent = await pay(steady);
    await until(sent.id, isSent);
    await stack.halt('signer-2');
    await stack.halt('signer-3');
    const unsigned = await pay(steady);
    await until(unsigned.id, ({ status_detail }) => status_detail === 'signing');

    await stack.halt('temporal');
    for (const suffix of ['', '-wal', '-shm']) rmSync(dataOf(`temporal.db${suffix}`), { force: true });
    await decide(decided.approvalId, 'approve');
    await stack.halt('worker');
    await stack.halt('api');
    await node().mine({ blocks: 1 });
    await node().setAutomine(true);
    await use(handedOut.header);

    await stack.start('temporal');
    await stack.start('signer-2');
    await stack.start('signer-3');
    await stack.start('worker');
    await stack.start('api');
    expect(unusual(await reconcileKept())).toEqual([]);
    for (const { id } of [sent, unsigned, decided]) await until(id, isIn('confirmed'));
    await decide(asked.approvalId, 'approve');
    const again = await pay(steady);
    for (const { id } of [asked, again]) await until(id, isIn('confirmed'));
    for (const { to } of [sent, unsigned, again]) expect(await usdcOf(to)).toBe(1_000_000n);
    for (const { to } of [asked, decided]) expect(await usdcOf(to)).toBe(12_500_000n);
    expect((await usdcOf(payee)) - before).toBe(10_000n);
    await eventually(
      () => client.get(`/x402/sessions/${session}/payments/${handedOut.id}`),
      ({ body }) => body.settlement.status === 'settled',
      { timeoutMs: soonMs },
    );
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('of all that one signer had', { timeout: 600_000 }, async () => {
    const steady = await newAgent();
    const first = await pay(steady);
    await until(first.id, isIn('confirmed'));
    await node().setAutomine(false);
    const sent = await pay(steady);
    await until(sent.id, isSent);
    await stack.halt('signer-2');
    rmSync(dataOf('signers/2/data'), { recursive: true });
    mkdirSync(dataOf('signers/2/data'), { mode: 0o700 });
    // The two others sign meanwhile.
    const meanwhile = await pay(steady);
    await until(meanwhile.id, isSent);
    await stack.start('signer-2');
    await node().mine({ blocks: 1 });
    await node().setAutomine(true);

    const repaired = await runScript('signer/cli/main.ts', ['repair', '--party', '2', '--json'], {
      PURSER_HOME: stack.home,
    });
    expect(repaired).toMatchObject({ failed: [] });
    expect(unusual(await reconcileKept())).toEqual([]);

    // With each of the others it signs again, and knows what they signed.
    for (const away of ['signer-1', 'signer-3'] as const) {
      await stack.halt(away);
      const paid = await pay(steady);
      await until(paid.id, isIn('confirmed'));
      expect(await usdcOf(paid.to)).toBe(1_000_000n);
      await stack.start(away);
    }
    for (const { id, to } of [first, sent, meanwhile]) {
      await until(id, isIn('confirmed'));
      expect(await usdcOf(to)).toBe(1_000_000n);
    }
    expect(await node().getTransactionCount({ address: steady.address })).toBe(5);
    expect(await findMismatches(pool)).toEqual([]);
  });
});
