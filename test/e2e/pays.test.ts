import { isDeepStrictEqual } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import pg from 'pg';
import {
  type Address,
  createPublicClient,
  createWalletClient,
  erc20Abi,
  formatEther,
  type Hex,
  http,
  parseEther,
} from 'viem';
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const local = 'eip155:31337';
const confirmWithinMs = 300_000;

let stack: OwnStack;
let client: TestClient;

beforeAll(async () => {
  stack = await startOwnStack({ workers: 2, decides: true });
  client = createTestClient(stack);
});
afterAll(() => stack?.stop());

const chain = () => createPublicClient({ transport: http(stack.rpcUrl) });
const usdcOf = (owner: Address) =>
  chain().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });
const stranger = () => privateKeyToAddress(generatePrivateKey());

async function newAgent(): Promise<{ id: string; wallet: { address: Address } }> {
  const answer = await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain: local });
  expect(answer.status).toBe(200);
  return answer.body;
}
const pay = (agentId: string, body: { to_address: string; amount: string; token: string }) =>
  client.post('/transactions', { agent_id: agentId, direction: 'outbound', type: 'transfer', chain: local, ...body });
async function ended(id: string) {
  const answer = await eventually(
    () => client.get(`/transactions/${id}`),
    ({ body }) => body.status !== 'pending',
    {
      timeoutMs: confirmWithinMs,
    },
  );
  return answer.body;
}

describe('an agent', () => {
  it('gets a wallet at once, funded on the local chain, so that the next call can pay', async () => {
    const { wallet } = await newAgent();
    expect(await usdcOf(wallet.address)).toBe(10_000_000_000n);
    expect(await chain().getBalance({ address: wallet.address })).toBe(parseEther('10'));
  });

  it('sends USDC: confirmed, with the fee of the receipt, to the last unit', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const sent = await pay(agent.id, { to_address: to, amount: '12.50', token: 'usdc' });
    expect(sent).toMatchObject({ status: 200, body: { status: 'pending', amount: '12.5', token: 'USDC' } });
    const done = await ended(sent.body.id);
    expect(done).toMatchObject({
      status: 'confirmed',
      status_detail: 'confirmed',
      confirmations: 1,
      nonce: 0,
      approval: null,
    });
    expect(await usdcOf(to)).toBe(12_500_000n);
    const receipt = await chain().getTransactionReceipt({ hash: done.hash });
    expect(done.fee).toBe(formatEther(receipt.gasUsed * receipt.effectiveGasPrice));
    expect(done.block_number).toBe(Number(receipt.blockNumber));
    expect(receipt.from).toBe(agent.wallet.address.toLowerCase());
  });

  it('F7 sends the native coin with all its 18 decimals', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const amount = '0.123456789012345678';
    const sent = await pay(agent.id, { to_address: to, amount, token: 'ETH' });
    expect((await ended(sent.body.id)).status).toBe('confirmed');
    expect(await chain().getBalance({ address: to })).toBe(parseEther(amount));
  });

  it('F19 sends 50 payments at once, which two workers carry: 50 nonces, 50 confirmed, no gap', {
    timeout: 900_000,
  }, async () => {
    const agent = await newAgent();
    const recipients = Array.from({ length: 50 }, stranger);
    const sent = await Promise.all(
      recipients.map((to_address) => pay(agent.id, { to_address, amount: '1', token: 'USDC' })),
    );
    expect(sent.map(({ status }) => status)).toEqual(recipients.map(() => 200));
    const done = await Promise.all(
      sent.map(({ body }) =>
        eventually(
          () => client.get(`/transactions/${body.id}`),
          (answer) => answer.body.status === 'confirmed',
          {
            timeoutMs: confirmWithinMs,
          },
        ),
      ),
    );
    const nonces = done.map(({ body }) => body.nonce as number).sort((a, b) => a - b);
    expect(nonces).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(await Promise.all(recipients.map(usdcOf))).toEqual(recipients.map(() => 1_000_000n));
    const page = await client.get(`/transactions?agent_id=${agent.id}&status=confirmed&page_size=20&page_num=3`);
    expect(page.body).toMatchObject({ total: 50, has_more: false });
    expect(page.body.data).toHaveLength(10);
  });

  it('is told at once what it cannot pay, exactly; the refusal is stored like a denial', async () => {
    const agent = await newAgent();
    const refused = await pay(agent.id, { to_address: stranger(), amount: '10000.000001', token: 'USDC' });
    expect(refused).toMatchObject({ status: 400, body: { code: 'insufficient_funds', type: 'invalid_request_error' } });
    expect(refused.body.message).toContain('10000 USDC');
    const stored = await client.get(`/transactions/${refused.body.details.transaction_id}`);
    expect(stored.body).toMatchObject({
      status: 'failed',
      failure_code: 'insufficient_funds',
      hash: null,
      nonce: null,
    });
  });

  it('is told when the recipient would refuse', async () => {
    const agent = await newAgent();
    const deployer = createWalletClient({
      account: privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'),
      transport: http(stack.rpcUrl),
    });
    // Runtime code of five bytes: PUSH1 0, PUSH1 0, REVERT — it takes nothing from anybody.
    const bytecode: Hex = '0x6460006000fd6000526005601bf3';
    const hash = await deployer.deployContract({ abi: [], bytecode, chain: null });
    const { contractAddress } = await chain().waitForTransactionReceipt({ hash });
    const sent = await pay(agent.id, { to_address: contractAddress!, amount: '0.1', token: 'ETH' });
    expect(sent).toMatchObject({ status: 200, body: { status: 'failed', failure_code: 'simulation_failed' } });
    expect(sent.body.failure_message).toMatch(/revert/i);
  });

  it('is held to its policies, with everything it needs to correct itself', async () => {
    const agent = await newAgent();
    const rules = { max_transaction_amount: '5' };
    const policy = await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules });
    expect(policy.status).toBe(200);
    const denied = await pay(agent.id, { to_address: stranger(), amount: '5.000001', token: 'USDC' });
    expect(denied).toMatchObject({
      status: 400,
      body: {
        code: 'policy_violation',
        details: { policy_id: policy.body.id, rule: 'max_transaction_amount', limit: '5', attempted: '5.000001' },
      },
    });
    const allowed = await pay(agent.id, { to_address: stranger(), amount: '5', token: 'USDC' });
    expect((await ended(allowed.body.id)).status).toBe('confirmed');
  });
});

describe('limits of an agent', () => {
  it('F22 let through what they allow of 20 payments at once, to the unit, and no more', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const rules = { daily_limit: '500' };
    expect((await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules })).status).toBe(200);
    const sent = await Promise.all(
      Array.from({ length: 20 }, () => pay(agent.id, { to_address: to, amount: '100', token: 'USDC' })),
    );
    const denied = sent.filter(({ status }) => status !== 200);
    for (const { status, body } of denied)
      expect([status, body.code, body.details.rule, body.details.used]).toEqual([
        400,
        'policy_violation',
        'daily_limit',
        expect.stringMatching(/^[1-5]00$/),
      ]);
    // On a busy machine some are answered before they are decided.
    const done = await Promise.all(sent.filter(({ status }) => status === 200).map(({ body }) => ended(body.id)));
    const outcomes = [...denied.map(({ body }) => body.code), ...done.map((each) => each.failure_code ?? each.status)];
    expect(outcomes.toSorted()).toEqual([...Array(5).fill('confirmed'), ...Array(15).fill('policy_violation')]);
    expect(await usdcOf(to)).toBe(500_000_000n);
  });

  it('let one of two payments of the whole balance pass', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const whole = { to_address: to, amount: '10000', token: 'USDC' };
    const sent = await Promise.all([pay(agent.id, whole), pay(agent.id, whole)]);
    const ids = sent.map(({ body }) => (body.id ?? body.details.transaction_id) as string);
    const done = await Promise.all(ids.map(ended));
    expect(done.map(({ status, failure_code }) => [status, failure_code]).toSorted()).toEqual([
      ['confirmed', null],
      ['failed', 'insufficient_funds'],
    ]);
    expect(await usdcOf(to)).toBe(10_000_000_000n);
  });

  it('make a payment wait for a person, with its money held, until it is approved or nobody came', async () => {
    const [agent, to] = [await newAgent(), stranger()];
    const rules = { threshold: '50', approvers: ['treasurer@example.com'], timeout_seconds: 3600 };
    expect((await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules })).status).toBe(200);
    const ask = () => pay(agent.id, { to_address: to, amount: '60', token: 'USDC' });
    const [first, second] = [await ask(), await ask()];
    for (const { status, body } of [first, second])
      expect([status, body.status, body.status_detail, body.approval.status]).toEqual([
        200,
        'pending',
        'awaiting_approval',
        'pending',
      ]);
    const usdc = await eventually(
      async () => {
        const { body } = await client.get(`/agents/${agent.id}/balances`);
        return body.data.find(
          (each: { token: string; chain: string }) => each.token === 'USDC' && each.chain === local,
        );
      },
      (seen) => seen.reserved === '120',
      { timeoutMs: confirmWithinMs },
    );
    expect(usdc).toMatchObject({ amount: '10000', available: '9880' });
    const approved = await fetch(`${stack.baseUrl}/api/v1/transactions/${first.body.id}/approve`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${await stack.token('treasurer@example.com')}` },
    });
    expect(approved.status).toBe(200);
    // A minute is the shortest time that a policy can give; the test has less of it.
    const database = new pg.Client({ connectionString: stack.databaseUrl });
    await database.connect();
    await database
      .query('update approvals set expires_at = now() where payment_id = $1', [second.body.id])
      .finally(() => database.end());
    expect(await ended(first.body.id)).toMatchObject({ status: 'confirmed', approval: { status: 'approved' } });
    expect(await ended(second.body.id)).toMatchObject({ status: 'failed', failure_code: 'approval_timeout' });
    expect(await usdcOf(to)).toBe(60_000_000n);
  });
});

describe('a simulated payment', () => {
  const simulate = (agentId: string, body: Record<string, unknown>) =>
    client.post('/transactions/simulate', {
      ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain: local, token: 'USDC' },
      to_address: stranger(),
      ...body,
    });

  /** Tables whose rows go on by themselves: counts are folded, audit entries get their places. */
  const moving = [
    'chain_heads',
    'api_keys',
    'list_counts',
    'list_count_deltas',
    'audit_inbox',
    'audit_logs',
    'audit_heads',
    'signer_alerts',
  ];

  /** Answers of people are looked at once more some seconds later, which is noted in their rows. */
  async function remindersTaken(): Promise<void> {
    const database = new pg.Client({ connectionString: stack.databaseUrl });
    await database.connect();
    const count = async () => (await database.query('select from approvals where reminder_at is not null')).rowCount;
    await eventually(count, (left) => left === 0, { timeoutMs: confirmWithinMs }).finally(() => database.end());
  }

  /** Number and content of every row of every table, and which audit entries there are. */
  async function everything(): Promise<Record<string, unknown>> {
    const database = new pg.Client({ connectionString: stack.databaseUrl });
    await database.connect();
    try {
      const { rows: tables } = await database.query<{ name: string }>(
        `select relname::text as name from pg_class
         where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
           and relname <> all ($1::text[])
         union all select '(select id from audit_inbox union all select id from audit_logs)'`,
        [moving],
      );
      const found: Record<string, unknown> = {};
      for (const { name } of tables) {
        const { rows } = await database.query(
          `select count(*)::int as count, md5(string_agg(t::text, '|' order by t::text)) as content from ${name} t`,
        );
        found[name] = rows[0];
      }
      return found;
    } finally {
      await database.end();
    }
  }

  it('says what would be decided, what is left of every limit, and what it costs at most; and changes nothing', async () => {
    const agent = await newAgent();
    const rules = { max_transaction_amount: '200', daily_limit: '300' };
    const { body: policy } = await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules });
    const paid = await pay(agent.id, { to_address: stranger(), amount: '100', token: 'USDC' });
    await ended(paid.body.id);
    await remindersTaken();
    const look = async () => ({ before: await everything(), ...(await simulateBoth()), after: await everything() });
    const simulateBoth = async () => ({
      answer: await simulate(agent.id, { amount: '150' }),
      tooMuch: await simulate(agent.id, { amount: '200.000001' }),
    });
    // What schedules write may come in between, but not each time.
    const isSame = ({ before, after }: Awaited<ReturnType<typeof look>>) => isDeepStrictEqual(before, after);
    const { answer, tooMuch } = await eventually(look, isSame, { timeoutMs: confirmWithinMs });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        allowed: true,
        decision: 'allow',
        violations: [],
        headroom: {
          [policy.id]: {
            max_transaction_amount: { limit: '200', used: null, remaining: null, token: 'USDC', resets_at: null },
            daily_limit: { limit: '300', used: '100', remaining: '200', token: 'USDC', resets_at: expect.any(String) },
          },
        },
        estimated_fee: expect.stringMatching(/^0\.0+[1-9]\d*$/),
        warnings: [],
      },
    });
    expect(tooMuch.body).toMatchObject({ allowed: false, decision: 'deny' });
    expect(tooMuch.body.violations.map(({ rule }: { rule: string }) => rule)).toEqual([
      'max_transaction_amount',
      'daily_limit',
    ]);
  });

  it('counts too little balance as what stands against it, after the policies', async () => {
    const agent = await newAgent();
    const rules = { max_transaction_amount: '10000' };
    await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules });
    const { body } = await simulate(agent.id, { amount: '10000.5' });
    expect(body).toMatchObject({
      allowed: false,
      decision: 'deny',
      violations: [
        { rule: 'max_transaction_amount' },
        { policy_id: null, rule: 'balance', limit: '10000', attempted: '10000.5', token: 'USDC' },
      ],
    });
  });

  it('warns about a limit that names no token, and says that a person would be asked', async () => {
    const agent = await newAgent();
    await client.post('/policies', { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '5' } });
    const { body } = await simulate(agent.id, { amount: '0.1', token: 'ETH' });
    expect(body).toMatchObject({ allowed: true, warnings: [{ code: 'limit_without_token' }] });
    const approval = { threshold: '0', approvers: ['a@example.com'] };
    await client.post('/policies', { agent_id: agent.id, type: 'human_approval', rules: approval });
    expect((await simulate(agent.id, { amount: '1' })).body).toMatchObject({
      allowed: false,
      decision: 'require_approval',
      violations: [],
    });
  });

  it('is refused like a real one for what is wrong with it', async () => {
    const agent = await newAgent();
    for (const [body, code] of [
      [{ amount: '0' }, 'invalid_amount'],
      [{ amount: '1', token: 'XYZ' }, 'invalid_token'],
      [{ amount: '1', chain: 'eip155:5' }, 'invalid_chain'],
      [{ amount: '1', to_address: '0x' }, 'invalid_address'],
      [{ amount: '1', memos: '' }, 'invalid_request'],
    ] as const)
      expect(await simulate(agent.id, body)).toMatchObject({ status: 400, body: { code } });
  });
});

describe('an operator', () => {
  it('reads in Temporal what a payment is, and finds it by what it belongs to', async () => {
    const agent = await newAgent();
    const to = stranger();
    const sent = await pay(agent.id, { to_address: to, amount: '3', token: 'USDC' });
    await ended(sent.body.id);
    const connection = await Connection.connect({ address: stack.temporalAddress });
    try {
      const { workflow } = new Client({ connection });
      await workflow.getHandle(sent.body.id).result();
      const query = `AgentId = '${agent.id}' AND TxStatus = 'confirmed' AND Chain = '${local}'`;
      const found = await eventually(
        async () => {
          const list = [];
          for await (const each of workflow.list({ query })) list.push(each);
          return list;
        },
        (list) => list.length > 0,
        { timeoutMs: confirmWithinMs },
      );
      expect(found.map(({ workflowId }) => workflowId)).toEqual([sent.body.id]);
      const { staticSummary } = await workflow.getHandle(sent.body.id).describe();
      expect(await staticSummary()).toBe(`3 USDC on ${local} to ${to}`);
      const history = JSON.stringify((await workflow.getHandle(sent.body.id).fetchHistory()).events);
      expect(history).not.toContain(stack.apiKey);
    } finally {
      await connection.close();
    }
  });

  it('finds in the daily check that limits and holds agree with all these payments', async () => {
    const connection = await Connection.connect({ address: stack.temporalAddress });
    try {
      const { schedule, workflow } = new Client({ connection });
      await schedule.getHandle('check-limits').trigger();
      const { workflowId } = await eventually(
        async () => (await schedule.getHandle('check-limits').describe()).info.recentActions[0]!.action.workflow,
        (started) => started.workflowId !== undefined,
        { timeoutMs: confirmWithinMs },
      );
      expect(await workflow.getHandle(workflowId).result()).toEqual({ mismatches: [] });
    } finally {
      await connection.close();
    }
  });

  it('finds all of it in the audit log, each entry with its place in a chain that is whole', async () => {
    const { body: head } = await eventually(
      () => client.get('/audit-logs/head'),
      ({ body }) => body.unsealed.count === 0,
      { timeoutMs: confirmWithinMs },
    );
    const { body: report } = await client.get(`/audit-logs/verify?head_seq=${head.seq}&head_hash=${head.hash}`);
    expect(report).toMatchObject({ valid: true, complete: true, head_hash: head.hash, checked: head.seq });
    for (const action of [
      'agent.created',
      'transaction.created',
      'transaction.evaluated',
      'transaction.signed',
      'transaction.confirmed',
    ]) {
      const { body } = await client.get(`/audit-logs?action=${action}`);
      expect([action, body.total > 0]).toEqual([action, true]);
    }
  });

  it('sees everything ready, and which signer is missing', async () => {
    await eventually(
      () => fetch(`${stack.baseUrl}/readyz`),
      ({ status }) => status === 200,
      { timeoutMs: confirmWithinMs },
    );
    await stack.halt('signer-2');
    try {
      const seen = await eventually(
        async () => JSON.stringify(await (await fetch(`${stack.baseUrl}/readyz`)).json()),
        (text) => /"party":2,"ok":false|signer 2/i.test(text),
        { timeoutMs: confirmWithinMs },
      );
      expect(seen).toMatch(/ECONNREFUSED|2/);
    } finally {
      await stack.start('signer-2');
    }
  });
});
