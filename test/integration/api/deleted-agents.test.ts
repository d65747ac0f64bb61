import { type Address, createTestClient, http } from 'viem';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { lockAgentWhole, markAgentDeleted } from '../../../shared/db/agents.ts';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import { insertTestPayment } from '../../support/rows.ts';
import { type RpcProxy, startRpcProxy } from '../../support/rpc-proxy.ts';
import { createAgent, payment, type TestAccount } from './harness.ts';
import { askPeople } from './questions.ts';
import { type ApiWithChain, startApiWithChain } from './with-chain.ts';
import { openSession } from './x402-calls.ts';

describe('the deletion of an agent', () => {
  let world: ApiWithChain;
  let rpc: RpcProxy;
  let account: TestAccount;
  let agent: { id: string; address: string };

  beforeAll(async () => {
    const endpoint = async (target: string) => {
      rpc = await startRpcProxy({ target });
      return rpc.url;
    };
    world = await startApiWithChain({ hasDead: false, endpoint });
    account = await world.api.account();
  });
  afterAll(async () => {
    await world?.stop();
    await rpc?.stop();
  });
  beforeEach(async () => {
    agent = await createAgent(account);
  });

  const path = (id: string) => `/api/v1/agents/${id}`;
  const remove = (id = agent.id) => account.call('DELETE', path(id));
  const get = (url: string) => account.call('GET', `/api/v1${url}`);
  const nothing = {
    ...{ transactions: [], x402_sessions: [], x402_payments: [], approvals: [] },
    ...{ balances: [], unreadable: [] },
  };
  async function refused(more: Partial<Record<keyof typeof nothing, unknown>>) {
    const { status, body } = await remove();
    expect([status, body.code, body.details]).toEqual([400, 'invalid_request', { ...nothing, ...more }]);
    expect((await get(`/agents/${agent.id}`)).body.status).toBe('active');
    return body.message as string;
  }
  const setWei = (wei: bigint) =>
    createTestClient({ mode: 'anvil', chain: anvil, transport: http(world.local.rpcUrl) }).setBalance({
      address: agent.address as Address,
      value: wei,
    });
  async function storedPayment(): Promise<string> {
    const { rows } = await world.api.pool.query<{ id: string }>('select id from wallets where agent_id = $1', [
      agent.id,
    ]);
    return insertTestPayment(world.api.pool, { accountId: account.id, agentId: agent.id, walletId: rows[0]!.id });
  }
  /** As if a worker had ended it. */
  const end = (id: string) =>
    world.api.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'cancelled',
              failure_message = 'Cancelled.' where id = $1`,
      [id],
    );

  it('hides it everywhere but in its history, and frees its name', async () => {
    const { body: shown } = await get(`/agents/${agent.id}`);
    const paid = await storedPayment();
    await end(paid);
    const session = await openSession(world.api, { account, agentId: agent.id });
    expect((await account.call('DELETE', `/api/v1/x402/sessions/${session.id}`)).status).toBe(200);
    const before = (await get('/agents')).body.total;

    expect(await remove()).toMatchObject({ status: 200, body: { id: agent.id, deleted: true } });
    for (const url of [`/agents/${agent.id}`, `/agents/${agent.id}/balances`])
      expect((await get(url)).status).toBe(404);
    const { body: list } = await get('/agents?page_size=100');
    expect([list.total, list.data.map(({ id }: { id: string }) => id)]).toEqual([
      before - 1,
      expect.not.arrayContaining([agent.id]),
    ]);
    for (const [method, url, body] of [
      ['DELETE', path(agent.id), undefined],
      ['PUT', path(agent.id), { agent_name: 'again' }],
      ['PUT', `${path(agent.id)}/status`, { status: 'active' }],
    ] as const)
      expect((await account.call(method, url, body)).status).toBe(404);
    const again = await createAgent(account, { agent_name: shown.agent_name });
    expect(again.address).not.toBe(agent.address);

    for (const [url, id] of [
      ['/transactions', paid],
      ['/x402/sessions', session.id],
    ] as const) {
      const { status, body } = await get(`${url}?agent_id=${agent.id}`);
      expect([url, status, body.data.map((one: { id: string }) => one.id)]).toEqual([url, 200, [id]]);
      expect((await get(`${url}/${id}`)).body.agent_id).toBe(agent.id);
    }
    expect((await get(`/approvals?agent_id=${agent.id}`)).body.total).toBe(0);
    expect((await get(`/events?resource_id=${agent.id}`)).body.data).toMatchObject([{ type: 'agent.created' }]);
  });

  it('lets nobody name it in a request any more', async () => {
    await remove();
    const rules = { type: 'spending_limit', rules: { daily_limit: '1' } };
    const session = { agent_id: agent.id, budget_limit: '1', chain: world.local.chain, ttl_seconds: 600 };
    const { body: templates } = await get('/policy-templates');
    for (const [url, body] of [
      ['/transactions', payment(agent.id)],
      ['/transactions/simulate', payment(agent.id)],
      ['/policies', { agent_id: agent.id, ...rules }],
      ['/x402/sessions', session],
      [`/policy-templates/${templates.data[0].id}/apply`, { agent_id: agent.id, mode: 'append' }],
    ] as const) {
      const answer = await account.call('POST', `/api/v1${url}`, body);
      expect([url, answer.status, answer.body.code, answer.body.param]).toEqual([
        ...[url, 400, 'invalid_request', 'agent_id'],
      ]);
    }
    const owner = await account.person('owner@example.com');
    const key = await owner.call('POST', '/api/v1/api-keys', { name: 'late', agent_id: agent.id });
    expect([key.status, key.body.param]).toEqual([400, 'agent_id']);
    expect((await world.api.pool.query('select from transactions where agent_id = $1', [agent.id])).rowCount).toBe(0);
  });

  it('takes its keys and its policies with it, tells so in the audit log, and keeps the wallet', async () => {
    const { row, key } = await createApiKey(world.api.pool, {
      ...{ accountId: account.id, name: 'its own', environment: 'sandbox', agentId: agent.id },
    });
    const limit = { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '1' } };
    const { body: policy } = await account.call('POST', '/api/v1/policies', limit);
    const asAgent = () => fetch(`${world.api.url}/api/v1/agents`, { headers: { 'x-api-key': key } });
    expect((await asAgent()).status).toBe(200);
    expect((await remove()).status).toBe(200);
    expect((await asAgent()).status).toBe(401);
    expect((await get(`/policies/${policy.id}`)).status).toBe(404);
    const { rows } = await world.api.pool.query(
      `select action, resource_id, changes from audit_inbox where agent_id = $1 and action like '%.deleted' order by id`,
      [agent.id],
    );
    expect(rows).toMatchObject([
      { action: 'api_key.deleted', resource_id: row.id },
      { action: 'agent.deleted', resource_id: agent.id, changes: { after: null, before: { policies: [policy] } } },
    ]);
    const wallets = await world.api.pool.query('select address from wallets where agent_id = $1', [agent.id]);
    expect(wallets.rows).toEqual([{ address: agent.address }]);
  });

  it('waits for payments under way, questions about them, and sessions', async () => {
    const {
      agent: asking,
      transactionId,
      approvalId,
    } = await askPeople(world.api, account, [{ approvers: ['ann@example.com'] }]);
    agent = { ...agent, id: asking.agentId };
    const session = await openSession(world.api, { account, agentId: agent.id });
    const message = await refused({
      ...{ transactions: [transactionId], approvals: [approvalId], x402_sessions: [session.id] },
    });
    expect(message).toContain(transactionId);
    await account.call('DELETE', `/api/v1/x402/sessions/${session.id}`);
    await account.call('POST', `/api/v1/transactions/${transactionId}/cancel`, {});
    await expect.poll(async () => (await remove()).status, { timeout: 30_000 }).toBe(200);
    expect((await get(`/approvals?agent_id=${agent.id}`)).body.data).toMatchObject([
      { id: approvalId, status: 'cancelled' },
    ]);
  });

  it('waits for payments out of an ended session that may still be settled', async () => {
    const { id } = await openSession(world.api, { account, agentId: agent.id });
    const ledger = `led_${id.slice('sess_'.length)}`;
    await world.api.pool.query(
      `insert into x402_payments (id, session_id, account_id, agent_id, wallet_id, chain, token, asset, decimals,
              amount_minor, fee_minor, fee_rate, from_address, to_address, target_url, method, x402_version, offer,
              domain_name, domain_version, window_seconds, auth_nonce, valid_after, valid_before, settlement,
              status, status_detail, payment_signature)
       select $2, id, account_id, agent_id, wallet_id, chain, token, asset, decimals, 1, 0, '0', $3, $3,
              'https://api.example.com/', 'GET', 2, '{}', 'USD Coin', '2', 60, '0x01', 1, 2, 'unsettled',
              'completed', 'completed', 'x' from x402_sessions where id = $1`,
      [id, ledger, agent.address],
    );
    await account.call('DELETE', `/api/v1/x402/sessions/${id}`);
    await refused({ x402_payments: [ledger] });
    await world.api.pool.query(`update x402_payments set settlement = 'expired', settled_at = now() where id = $1`, [
      ledger,
    ]);
    expect((await remove()).status).toBe(200);
  });

  it('is refused while the wallet holds tokens, or coins that could pay for their own transfer', async () => {
    const { chain } = world.local;
    await world.local.fund(agent.address as Address, { eth: '0', usdc: '0.000001' });
    expect(await refused({ balances: [{ chain, token: 'USDC', amount: '0.000001' }] })).toContain('0.000001 USDC');
    const other = await createAgent(account);
    agent = other;
    await setWei(10n ** 17n);
    const balances = [{ chain, token: 'ETH', amount: '0.1' }];
    await refused({ balances });
    // Everything at once, so that nobody has to try again for each.
    const pending = await storedPayment();
    await refused({ balances, transactions: [pending] });
    await end(pending);
    const { estimated_fee: fee } = (
      await account.call('POST', '/api/v1/transactions/simulate', payment(agent.id, { token: 'ETH', amount: '0.01' }))
    ).body;
    expect(Number(fee)).toBeGreaterThan(0);
    await setWei(1_000n);
    expect((await remove()).status).toBe(200);
  });

  it('is refused while nobody can say what the wallet holds, or what it would cost to move it', async () => {
    const { chain } = world.local;
    const error = expect.any(String);
    rpc.set({ down: true });
    await refused({
      unreadable: [
        { chain, token: 'ETH', error },
        { chain, token: 'USDC', error },
      ],
    });
    await setWei(1_000n);
    rpc.set({
      answer: (method, _, told) =>
        method === 'eth_feeHistory' ? { error: { code: -32_000, message: 'not now' } } : told,
    });
    expect(await refused({ unreadable: [{ chain, token: 'ETH', error }] })).toContain('the fee');
    rpc.set({});
    expect((await remove()).status).toBe(200);
  });

  it('is refused where the chain of the agent is served no more', async () => {
    await world.api.pool.query(`update agents set chain = 'eip155:84532' where id = $1`, [agent.id]);
    const { status, body } = await remove();
    expect([status, body.details.unreadable[0].chain]).toEqual([400, 'eip155:84532']);
  });

  it('lets a payment that is made at the same moment be first, and is refused for it', async () => {
    const payer = await world.api.pool.connect();
    try {
      await payer.query('begin');
      const { rows } = await payer.query<{ id: string }>('select id from wallets where agent_id = $1', [agent.id]);
      const id = await insertTestPayment(payer as never, {
        ...{ accountId: account.id, agentId: agent.id, walletId: rows[0]!.id },
      });
      const removing = remove();
      await waiting();
      await payer.query('commit');
      const { status, body } = await removing;
      expect([status, body.details?.transactions]).toEqual([400, [id]]);
    } finally {
      payer.release();
    }
  });

  it('has a payment, a policy and a key that are made at the same moment wait, and refused', async () => {
    const owner = await account.person('owner@example.com');
    const policy = { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '1' } };
    let answers: Promise<readonly { status: number; body: { param?: string } }[]> | undefined;
    await inTransaction(world.api.pool, async (db) => {
      await lockAgentWhole(db, { id: agent.id });
      answers = Promise.all([
        account.call('POST', '/api/v1/transactions', payment(agent.id)),
        account.call('POST', '/api/v1/policies', policy),
        owner.call('POST', '/api/v1/api-keys', { name: 'late', agent_id: agent.id }),
        account.call('PUT', path(agent.id), { agent_name: 'late' }),
        account.call('PUT', `${path(agent.id)}/status`, { status: 'inactive' }),
      ]);
      await waiting(5);
      await markAgentDeleted(db, { id: agent.id });
    });
    expect((await answers)?.map(({ status, body }) => [status, body.param])).toEqual([
      ...[
        [400, 'agent_id'],
        [400, 'agent_id'],
        [400, 'agent_id'],
      ],
      ...[
        [404, undefined],
        [404, undefined],
      ],
    ]);
    for (const table of ['transactions', 'policies', 'api_keys'])
      expect((await world.api.pool.query(`select from ${table} where agent_id = $1`, [agent.id])).rowCount).toBe(0);
  });

  it("answers 404 for another account's agent and for none", async () => {
    const theirs = await createAgent(await world.api.account());
    for (const id of [theirs.id, 'agent_00000000000000000000000000', 'x']) expect((await remove(id)).status).toBe(404);
  });

  it('leaves room for another one on the plan', async () => {
    const starter = await world.api.account({ plan: 'starter' });
    const agents = [];
    for (let i = 0; i < 10; i += 1) agents.push(await createAgent(starter));
    const body = { agent_name: 'the eleventh', chain: world.local.chain };
    expect((await starter.call('POST', '/api/v1/agents', body)).status).toBe(403);
    expect((await starter.call('DELETE', path(agents[0]!.id))).status).toBe(200);
    expect((await starter.call('POST', '/api/v1/agents', body)).status).toBe(200);
  });

  it('is answered 503 when nobody who reaches the chains answers, and nothing is deleted', async () => {
    await world.stopChainWorker();
    expect((await remove()).status).toBe(503);
    expect((await get(`/agents/${agent.id}`)).status).toBe(200);
  });

  /** Until so many wait for somebody's lock. */
  const waiting = (count = 1) =>
    expect
      .poll(
        async () => {
          const { rows } = await world.api.pool.query(
            `select count(*)::int as waiting from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'`,
          );
          return rows[0].waiting;
        },
        { timeout: 30_000 },
      )
      .toBe(count);
});
