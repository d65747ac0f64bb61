import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { type Address, createPublicClient, erc20Abi, http } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { hashApprovalToken } from '../../shared/approval-token.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool } from '../../shared/db/pool.ts';
import { approvalMailWorkflowId } from '../../shared/temporal.ts';
import { type Answer, createTestClient, eventually, type TestClient } from '../support/client.ts';
import { readPlan, writePlan } from '../support/crash-plan.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const run = promisify(execFile);
const local = 'eip155:31337';
const soonMs = 180_000;
const [treasurer, director] = ['treasurer@example.com', 'director@example.com'];

let stack: OwnStack;
let client: TestClient;
let temporal: Client;
let connection: Connection;

beforeAll(async () => {
  stack = await startOwnStack();
  client = createTestClient(stack);
  connection = await Connection.connect({ address: stack.temporalAddress });
  temporal = new Client({ connection });
});
afterAll(async () => {
  await connection?.close();
  await stack?.stop();
});

const received = (owner: Address) =>
  createPublicClient({ transport: http(stack.rpcUrl) }).readContract({
    address: stack.usdcAddress,
    abi: erc20Abi,
    functionName: 'balanceOf',
    args: [owner],
  });

interface Asked {
  readonly id: string;
  readonly approvalId: string;
  readonly agentId: string;
  readonly to: Address;
}

let agents = 0;
/** A payment of 12.5 USDC that waits for a person. */
async function ask(rules: Record<string, unknown> = {}): Promise<Asked> {
  agents += 1;
  const agent = await client.post('/agents', { agent_name: `buyer ${agents}`, chain: local });
  const policy = { threshold: '10', approvers: [treasurer, director], ...rules };
  const made = await client.post('/policies', { agent_id: agent.body.id, type: 'human_approval', rules: policy });
  expect([agent.status, made.status]).toEqual([200, 200]);
  const to = privateKeyToAddress(generatePrivateKey());
  const { status, body } = await client.post('/transactions', {
    ...{ agent_id: agent.body.id, direction: 'outbound', type: 'transfer', chain: local },
    ...{ to_address: to, amount: '12.5', token: 'USDC' },
  });
  expect([status, body.status]).toEqual([200, 'pending']);
  const waiting = await eventually(
    () => client.get(`/transactions/${body.id}`),
    (answer) => answer.body.status_detail === 'awaiting_approval',
    { timeoutMs: soonMs },
  );
  return { id: body.id, approvalId: waiting.body.approval.id, agentId: agent.body.id, to };
}

/** Answers as a person does who has signed in. */
async function decide(
  { approvalId }: Asked,
  { as = treasurer, verb = 'approve', body = {} as object }: { as?: string; verb?: string; body?: object } = {},
): Promise<Answer> {
  const response = await fetch(`${stack.baseUrl}/api/v1/approvals/${approvalId}/${verb}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${await stack.token(as)}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
}

async function confirmed({ id, to }: Asked, timeoutMs = soonMs): Promise<void> {
  await eventually(
    () => client.get(`/transactions/${id}`),
    ({ status, body }) => {
      if (status === 200 && body.status === 'failed') throw new Error(`failed: ${body.failure_code}`);
      return status === 200 && body.status === 'confirmed';
    },
    { timeoutMs },
  );
  expect(await received(to)).toBe(12_500_000n);
}

interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly links: readonly string[];
}
/** The mail that one approver got about a payment. */
async function mailTo(approver: string, { to }: Asked): Promise<Mail> {
  const look = async () => {
    const response = await fetch(`${stack.mailUrl}/api/mails`);
    const { data } = (await response.json()) as { data: Mail[] };
    return data.find((mail) => String(mail.to).includes(approver) && mail.text.replaceAll(/\s/g, '').includes(to));
  };
  return (await eventually(look, (mail) => mail !== undefined, { timeoutMs: soonMs }))!;
}
const tokenOf = ({ links }: Mail) => links[0]!.split('/').at(-1)!;

/** Everything that Temporal keeps of a workflow, as text. */
async function everythingOf(workflowId: string): Promise<string> {
  const handle = temporal.workflow.getHandle(workflowId);
  const { raw } = await handle.describe();
  const plain = (_key: string, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : value;
  const history = JSON.parse(historyToJSON(await handle.fetchHistory()));
  const decoded = JSON.stringify(history, (key, value) =>
    key === 'data' && typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : value,
  );
  return decoded + JSON.stringify(raw, plain);
}

describe('a payment above a threshold', () => {
  it('is made when one of the approvers follows the link in the mail, and agrees there', {
    timeout: 400_000,
  }, async () => {
    const asked = await ask();
    const mails = [await mailTo(treasurer, asked), await mailTo(director, asked)];
    const [link] = mails[0]!.links;
    expect(mails[0]!.links).toEqual([link]);
    expect(link).toMatch(new RegExp(`^${stack.baseUrl}/approve/[\\w-]{43}$`));
    expect(mails[0]!.text).toMatch(/Amount\s+12\.5\sUSDC/);

    const opened = await fetch(link!);
    expect([opened.status, opened.headers.get('referrer-policy')]).toEqual([200, 'no-referrer']);
    expect((await client.get(`/approvals/${asked.approvalId}`)).body.status).toBe('pending');

    const form = new URLSearchParams({ decision: 'approved', note: 'Agreed by phone.' });
    const from = performance.now();
    const answered = await fetch(link!, { method: 'POST', body: form, redirect: 'manual' });
    expect(answered.status).toBe(303);
    await eventually(
      () => client.get(`/transactions/${asked.id}`),
      ({ body }) => ['broadcast', 'confirming', 'confirmed'].includes(body.status_detail),
      { timeoutMs: soonMs },
    );
    console.log(`from the answer to the broadcast: ${Math.round(performance.now() - from)} ms`);
    await confirmed(asked);
    expect((await client.get(`/approvals/${asked.approvalId}`)).body).toMatchObject({
      status: 'approved',
      amount: '12.5',
      decisions: [{ approver: treasurer, decision: 'approved', note: 'Agreed by phone.' }],
    });
    await expectNowhere(asked, mails.map(tokenOf));
  });

  /** The tokens of the links are known to the mails alone. */
  async function expectNowhere(asked: Asked, tokens: string[]): Promise<void> {
    for (const workflowId of [asked.id, approvalMailWorkflowId(asked.approvalId)]) {
      const kept = await everythingOf(workflowId);
      expect(kept).toContain(asked.approvalId);
      for (const token of tokens) expect(kept).not.toContain(token);
    }
    const pool = createPool({ url: stack.databaseUrl, max: 1, application: 'test' });
    const { rows: tables } = await pool.query<{ name: string }>(
      `select relname::text as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
    );
    for (const { name } of tables) {
      const { rows } = await pool.query<{ text: string }>(`select t::text as text from ${name} t`);
      for (const token of tokens) expect(rows.filter(({ text }) => text.includes(token))).toEqual([]);
    }
    const { rows } = await pool.query(`select token_hash from approval_links where approval_id = $1`, [
      asked.approvalId,
    ]);
    const hashes = rows.map(({ token_hash }) => token_hash.toString('hex')).sort();
    expect(hashes).toEqual(tokens.map((token) => hashApprovalToken(token)!.toString('hex')).sort());
    await pool.end();
    for (const token of tokens) {
      const found = await run('grep', ['-rlF', token, stack.logDir]).catch(({ stdout }) => ({ stdout }));
      expect(found.stdout).toBe('');
    }
  }

  it('fails when one of two has agreed and the other rejects, and nothing is paid', { timeout: 400_000 }, async () => {
    const asked = await ask({ required_approvals: 2 });
    expect(await decide(asked)).toMatchObject({ status: 200, body: { status: 'pending' } });
    const rejected = await decide(asked, { as: director, verb: 'reject', body: { note: 'Unknown supplier' } });
    expect(rejected).toMatchObject({ status: 200, body: { status: 'rejected' } });
    const { body } = await eventually(
      () => client.get(`/transactions/${asked.id}`),
      (answer) => answer.body.status === 'failed',
      { timeoutMs: soonMs },
    );
    expect(body).toMatchObject({ failure_code: 'approval_rejected', hash: null, approval: { status: 'rejected' } });
    expect(body.failure_message).toBe(`${director} rejected the payment: Unknown supplier`);
    expect(await received(asked.to)).toBe(0n);
  });

  it('is not made by the API key that asked for it, nor by a signal through the command line', {
    timeout: 400_000,
  }, async () => {
    const asked = await ask();
    const refused = await client.post(`/approvals/${asked.approvalId}/approve`, {});
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_permissions']);
    const signal = ['workflow', 'signal', '--workflow-id', asked.id, '--name', 'approve'];
    await run(inject('stack').temporalBinary, [...signal, '--address', stack.temporalAddress]);
    await eventually(
      async () => (await temporal.workflow.getHandle(asked.id).fetchHistory()).events ?? [],
      (events) => events.some(({ workflowExecutionSignaledEventAttributes: it }) => it?.signalName === 'approve'),
      { timeoutMs: soonMs },
    );
    // A real decision comes later, so that what the signal did is known to be over.
    expect((await client.get(`/transactions/${asked.id}`)).body.status_detail).toBe('awaiting_approval');
    expect(await decide(asked, { as: director })).toMatchObject({ status: 200 });
    await confirmed(asked);
  });
});

describe('a payment that was approved survives kill -9', () => {
  it.each(['awaitApproval', 'allot', 'sign'])(
    'F28 of the worker at %s, between decision and signature, and is made once',
    { timeout: 400_000 },
    async (step) => {
      const asked = await ask();
      const before = stack.restarts('worker');
      writePlan(stack.planFile, { victim: 'worker', left: [{ step, when: 'before' }], pid: stack.pid('worker') });
      expect(await decide(asked)).toMatchObject({ status: 200, body: { status: 'approved' } });
      await confirmed(asked);
      expect(readPlan(stack.planFile).left).toEqual([]);
      expect(stack.restarts('worker') - before).toBe(1);
    },
  );

  it('with Temporal away when it was decided: the decision stands, and the payment finds it', {
    timeout: 400_000,
  }, async () => {
    const asked = await ask();
    await stack.halt('temporal');
    expect(await decide(asked)).toMatchObject({ status: 200, body: { status: 'approved' } });
    await stack.start('temporal');
    await confirmed(asked);
  });

  it('and every limit, hold and question agrees with the payments afterwards', async () => {
    const pool = createPool({ url: stack.databaseUrl, max: 1, application: 'test' });
    expect(await findMismatches(pool)).toEqual([]);
    await pool.end();
  });
});
