import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client, Connection } from '@temporalio/client';
import { type Address, createTestClient as createNodeClient, erc20Abi, http, publicActions, walletActions } from 'viem';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { startApiProcess } from '../integration/api/api-process.ts';
import { createKeyedCalls } from '../integration/api/idempotency-calls.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type CrashPoint, readPlan, writePlan } from '../support/crash-plan.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import {
  argsOf,
  facilitator,
  type Price,
  payee,
  readHeader,
  startPaidApi,
  transferWithAuthorization,
} from '../support/paid-api.ts';
import type { TestTarget } from '../support/target.ts';

const chain = 'eip155:31337';
const soonMs = 180_000;
const recoverMs = 180_000;
const approver = 'treasurer@example.com';

let stack: OwnStack;
let client: TestClient;
let target: TestTarget;
let pool: Pool;
let temporal: Client;
let closeTemporal = async () => {};

beforeAll(async () => {
  stack = await startOwnStack();
  client = createTestClient(stack);
  target = await startPaidApi({ chain, asset: stack.usdcAddress });
  pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
  const connection = await Connection.connect({ address: stack.temporalAddress });
  temporal = new Client({ connection });
  closeTemporal = () => connection.close();
});
afterAll(async () => {
  await closeTemporal();
  await pool?.end();
  await target?.stop();
  await stack?.stop();
});

const node = () =>
  createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl), account: facilitator })
    .extend(publicActions)
    .extend(walletActions);

/** An agent with money, and a session of so much USDC. */
async function open(budget_limit = '1'): Promise<{ agentId: string; sessionId: string }> {
  const agent = await client.post('/agents', { agent_name: `payer ${Math.random()}`, chain });
  const made = await client.post('/x402/sessions', {
    agent_id: agent.body.id,
    chain,
    budget_limit,
    ttl_seconds: 3600,
  });
  expect([made.status, made.body.status]).toEqual([200, 'active']);
  return { agentId: agent.body.id, sessionId: made.body.id };
}

const priced = ({ amount = '10000', maxTimeoutSeconds = 300 }: Price = {}) =>
  `${target.url}/weather?amount=${amount}&maxTimeoutSeconds=${maxTimeoutSeconds}`;
const pay = (sessionId: string, price: Price = {}) =>
  client.post(`/x402/sessions/${sessionId}/pay`, { target_url: priced(price) });
const read = async (sessionId: string, ledgerId: string) =>
  (await client.get(`/x402/sessions/${sessionId}/payments/${ledgerId}`)).body;
const session = async (sessionId: string) => (await client.get(`/x402/sessions/${sessionId}`)).body;
// biome-ignore lint/suspicious/noExplicitAny: the API's own answer
const reach = (sessionId: string, ledgerId: string, isRight: (body: any) => boolean, timeoutMs = soonMs) =>
  eventually(() => read(sessionId, ledgerId), isRight, { timeoutMs });

/** Different authorisations that any signer has ever taken part in signing, by payment. The signers must not run. */
function signedNonces(): Map<string, Set<string>> {
  const nonces = new Map<string, Set<string>>();
  for (const party of [1, 2, 3]) {
    const file = join(dirname(stack.logDir), 'signers', `${party}`, 'data', 'signer.sqlite');
    const store = new DatabaseSync(file, { readOnly: true });
    const rows = store.prepare('select transaction_id as id, payload from signing_log').all();
    store.close();
    for (const { id, payload } of rows as { id: string; payload: string }[])
      nonces.set(id, (nonces.get(id) ?? new Set()).add(JSON.parse(payload).authorization.nonce));
  }
  return nonces;
}

/** Has the token carry out what a header allows. */
async function use(header: string): Promise<void> {
  const args = argsOf(header);
  const hash = await node().writeContract({
    address: stack.usdcAddress,
    abi: transferWithAuthorization,
    functionName: 'transferWithAuthorization',
    args,
  });
  expect((await node().waitForTransactionReceipt({ hash })).status).toBe('success');
}
const received = () =>
  node().readContract({
    address: stack.usdcAddress as Address,
    abi: erc20Abi,
    functionName: 'balanceOf',
    args: [payee],
  });

/** Authorisations that may have been signed, by payment; the signers' own logs are compared with them at the end. */
const allowed = new Map<string, string[]>();
const allow = (ledgerId: string, header: string) => allowed.set(ledgerId, [readHeader(header).authorization.nonce]);
const signersAway = async (away: () => Promise<void>): Promise<void> => {
  await Promise.all([stack.halt('signer-1'), stack.halt('signer-2')]);
  try {
    await away();
  } finally {
    await Promise.all([stack.start('signer-1'), stack.start('signer-2')]);
  }
};
const mine = () => node().mine({ blocks: 1 });
const isAnswered = ({ status }: { status: number }) => status === 200 || status === 400;

describe('a payment out of an x402 session', () => {
  let shortLived: string;
  it('is answered with a header that the token takes, once, and known as settled', async () => {
    const { agentId, sessionId } = await open();
    // A minute is the shortest time of a session; the last test looks what became of it.
    const body60 = { agent_id: agentId, chain, budget_limit: '2', ttl_seconds: 60 };
    shortLived = (await client.post('/x402/sessions', body60)).body.id;
    const answer = await pay(sessionId);
    expect(answer.status).toBe(200);
    const body = await reach(sessionId, answer.body.ledger_id, ({ status }) => status === 'completed');
    expect(body.settlement.status).toBe('unsettled');
    const before = await received();
    await use(body.payment_signature);
    expect((await received()) - before).toBe(10_000n);
    await expect(use(body.payment_signature)).rejects.toThrow(/used or canceled/);
    const settled = await reach(sessionId, body.ledger_id, ({ settlement }) => settlement.status === 'settled');
    expect(settled.settlement.tx_hash).toMatch(/^0x/);
    expect(await temporal.workflow.getHandle(body.ledger_id).result()).toBe('settled');
    expect(await session(sessionId)).toMatchObject({ budget_spent: '0.01', budget_remaining: '0.99' });
    allow(body.ledger_id, body.payment_signature);
  });

  it('waits for a person where a policy wants one, is handed out on a yes, and takes nothing on a no', async () => {
    const { agentId, sessionId } = await open();
    const rules = { threshold: '0.02', approvers: [approver], timeout_seconds: 3600 };
    await client.post('/policies', { agent_id: agentId, type: 'human_approval', rules });
    const ask = async () => {
      const { status, body: answer } = await pay(sessionId, { amount: '50000' });
      expect([status, answer.status]).toEqual([200, 'pending']);
      const isAsked = (seen: { status_detail: string }) => seen.status_detail === 'awaiting_approval';
      const body = await reach(sessionId, answer.ledger_id, isAsked);
      expect([body.payment_signature, body.approval.status]).toEqual([null, 'pending']);
      return { ledgerId: body.ledger_id as string, approvalId: body.approval.id as string };
    };
    const [agreed, refused, forgotten] = [await ask(), await ask(), await ask()];
    expect(await session(sessionId)).toMatchObject({ budget_spent: '0.15' });
    const asked = (await client.get(`/approvals/${agreed.approvalId}`)).body;
    expect(asked).toMatchObject({
      ledger_id: agreed.ledgerId,
      transaction_id: null,
      target_url: priced({ amount: '50000' }),
    });
    await decide(agreed.approvalId, 'approve');
    await decide(refused.approvalId, 'reject');
    const paid = await reach(sessionId, agreed.ledgerId, ({ status }) => status === 'completed');
    await use(paid.payment_signature);
    const failed = await reach(sessionId, refused.ledgerId, ({ status }) => status === 'failed');
    expect(failed).toMatchObject({ failure_code: 'approval_rejected', settlement: null, payment_signature: null });
    allowed.set(refused.ledgerId, []);
    allow(agreed.ledgerId, paid.payment_signature);
    // Whose session ends meanwhile, fails before anybody answers.
    await fetch(`${stack.baseUrl}/api/v1/x402/sessions/${sessionId}`, {
      method: 'DELETE',
      headers: { 'X-API-Key': stack.apiKey },
    });
    const over = await reach(sessionId, forgotten.ledgerId, ({ status }) => status === 'failed');
    expect(over).toMatchObject({ failure_code: 'session_expired' });
    expect(await session(sessionId)).toMatchObject({ status: 'deleted', budget_spent: '0.05' });
  });

  it('is signed later where two signers are away, with the same authorisation, or with another one once that is over', async () => {
    const [soon, late] = [await open(), await open()];
    const made: { brief: string; long: string; nonce: string } = { brief: '', long: '', nonce: '' };
    const nonceOf = async (id: string) => {
      const look = () =>
        pool.query<{ nonce: string }>('select auth_nonce as nonce from x402_payments where id = $1', [id]);
      const { rows } = await eventually(look, ({ rows: [row] }) => row!.nonce !== null, { timeoutMs: soonMs });
      return rows[0]!.nonce;
    };
    let firstNonce = '';
    await signersAway(async () => {
      const [brief, long] = await Promise.all([pay(soon.sessionId, { maxTimeoutSeconds: 30 }), pay(late.sessionId)]);
      for (const { status, body } of [brief, long])
        expect([status, body.status, body.payment_signature]).toEqual([200, 'pending', null]);
      [made.brief, made.long] = [brief.body.ledger_id, long.body.ledger_id];
      firstNonce = await nonceOf(made.brief);
      made.nonce = await nonceOf(made.long);
      // Somebody ends the workflow by hand: another one takes over where it stood.
      await temporal.workflow.getHandle(made.long).terminate('by an operator');
      const isTooOld = `select extract(epoch from now()) > valid_before - 15 as old from x402_payments where id = $1`;
      await eventually(
        () => pool.query<{ old: boolean }>(isTooOld, [made.brief]),
        ({ rows }) => rows[0]!.old,
        { timeoutMs: soonMs },
      );
    });
    const long = await reach(late.sessionId, made.long, ({ status }) => status === 'completed');
    expect(readHeader(long.payment_signature).authorization.nonce).toBe(made.nonce);
    allow(made.long, long.payment_signature);
    expect(await read(soon.sessionId, made.brief)).toMatchObject({ status: 'pending', payment_signature: null });
    expect(await session(soon.sessionId)).toMatchObject({ budget_spent: '0.01' });
    const brief = await eventually(
      async () => {
        await mine();
        return read(soon.sessionId, made.brief);
      },
      ({ status }) => status === 'completed',
      { timeoutMs: recoverMs },
    );
    const { nonce, validAfter } = readHeader(brief.payment_signature).authorization;
    expect(nonce).not.toBe(firstNonce);
    allow(made.brief, brief.payment_signature);
    // The first one was over before the second one was made, and was never handed out.
    expect(Number(validAfter) + 600).toBeGreaterThanOrEqual(Date.parse(brief.created_at) / 1000 + 29);
    await use(brief.payment_signature);
    await use(long.payment_signature);
    expect(await session(soon.sessionId)).toMatchObject({ budget_spent: '0.01' });
  });

  it('F2 survives kill -9 of the worker between each two steps: one authorisation, charged once', {
    timeout: 600_000,
  }, async () => {
    const { sessionId } = await open();
    const left: CrashPoint[] = [
      { when: 'before', step: 'stampAuthorization' },
      { when: 'after', step: 'stampAuthorization' },
      { when: 'after', step: 'signAuthorization' },
      { when: 'after', step: 'issueAuthorization' },
    ];
    const planned = left.length;
    writePlan(stack.planFile, { victim: 'worker', left, pid: stack.pid('worker') });
    const before = stack.restarts('worker');
    const ids: string[] = [];
    const plan = () => readPlan(stack.planFile);
    while (plan().left.length > 0) {
      expect(ids.length, 'payments needed for the plan').toBeLessThan(4 * planned);
      const leftBefore = plan().left.length;
      const { status, body } = await pay(sessionId);
      expect(status).toBe(200);
      ids.push(body.ledger_id);
      const isDone = async () => (await read(sessionId, body.ledger_id)).status === 'completed';
      await eventually(
        async () => plan().left.length < leftBefore || (await isDone()),
        (goOn) => goOn && plan().pid !== undefined,
        { timeoutMs: recoverMs },
      );
    }
    const receivedBefore = await received();
    for (const id of ids) {
      const { payment_signature: header } = await reach(
        sessionId,
        id,
        ({ status }) => status === 'completed',
        recoverMs,
      );
      allow(id, header);
      await use(header);
    }
    expect(stack.restarts('worker') - before).toBe(planned);
    expect((await received()) - receivedBefore).toBe(10_000n * BigInt(ids.length));
    for (const id of ids) await reach(sessionId, id, ({ settlement }) => settlement.status === 'settled', recoverMs);
    expect(await session(sessionId)).toMatchObject({ budget_spent: String(ids.length / 100) });
  });

  it('is one of 57, where 200 are asked for at once at three processes, out of a budget for 57, and the worker is killed', {
    timeout: 600_000,
  }, async () => {
    const { databaseUrl, temporalAddress, usdcAddress: usdc, apiKey } = stack;
    const others = await Promise.all([1, 2].map(() => startApiProcess({ databaseUrl, temporalAddress, usdc })));
    const posts = [stack.baseUrl, ...others.map(({ url }) => url)].map(
      (url) => createKeyedCalls({ url, account: { key: apiKey } }).post,
    );
    const { sessionId } = await open('0.57');
    const body = { target_url: priced() };
    const path = `/x402/sessions/${sessionId}`;
    /** As clients do: what could not be said in time on a busy machine is asked for again. */
    const ask = async (i: number) => {
      const headers = { 'idempotency-key': `${sessionId} ${i}` };
      return eventually(() => posts[i % 3]!(`${path}/pay`, body, headers), isAnswered, { timeoutMs: recoverMs });
    };
    const asked = Array.from({ length: 200 }, (_, i) => ask(i));
    const list = async () => (await client.get(`${path}/payments?page_size=100`)).body;
    const before = stack.restarts('worker');
    await eventually(list, ({ total }) => total > 10, { timeoutMs: soonMs });
    process.kill(stack.pid('worker'), 'SIGKILL');
    const answers = await Promise.all(asked);
    const taken = answers.filter(({ status }) => status === 200);
    expect(taken).toHaveLength(57);
    for (const { status, body } of answers) if (status !== 200) expect(body.code).toBe('budget_exceeded');
    const isDone = ({ status }: { status: string }) => status === 'completed';
    const { data } = await eventually(list, (seen) => seen.data.every(isDone), { timeoutMs: recoverMs });
    const headers = data.map(({ payment_signature }: { payment_signature: string }) => payment_signature);
    expect([data.length, new Set(headers).size]).toEqual([57, 57]);
    for (const { ledger_id, payment_signature } of data) allow(ledger_id, payment_signature);
    expect(await session(sessionId)).toMatchObject({ budget_spent: '0.57', budget_remaining: '0', status: 'active' });
    expect(stack.restarts('worker') - before).toBe(1);
    await Promise.all(others.map((each) => each.kill()));
  });

  it('leaves sums that agree, and sessions end by themselves', async () => {
    await eventually(
      () => session(shortLived),
      ({ status }) => status === 'expired',
      { timeoutMs: recoverMs },
    );
    expect(await temporal.workflow.getHandle(shortLived).result()).toBeUndefined();
    const { rows } = await pool.query('select type from events where resource_id = $1 order by created_at', [
      shortLived,
    ]);
    expect(rows.map(({ type }) => type)).toEqual(['x402.session.created', 'x402.session.expired']);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('has had nothing else signed, by the logs of the signers', async () => {
    expect(allowed.size).toBeGreaterThan(5);
    await Promise.all(([1, 2, 3] as const).map((party) => stack.halt(`signer-${party}`)));
    const signed = signedNonces();
    for (const [id, nonces] of allowed) expect([...(signed.get(id) ?? [])]).toEqual(nonces);
  });
});

async function decide(approvalId: string, verb: 'approve' | 'reject'): Promise<void> {
  const response = await fetch(`${stack.baseUrl}/api/v1/approvals/${approvalId}/${verb}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${await stack.token(approver)}`, 'Content-Type': 'application/json' },
    body: '{}',
  });
  expect(response.status).toBe(200);
}
