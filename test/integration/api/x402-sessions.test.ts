import type { Address } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { putHolds } from '../../../shared/db/holds.ts';
import { newId } from '../../../shared/ids.ts';
import { createAgent, type TestAccount } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { type ApiWithChain, deadChain, startApiWithChain } from './with-chain.ts';
import { expectBalancedBooks, expire } from './x402-calls.ts';

describe('an x402 session', () => {
  let world: ApiWithChain;
  let account: TestAccount;
  beforeAll(async () => {
    world = await startApiWithChain();
    account = await world.api.account();
  });
  afterAll(() => world?.stop());

  const base = '/api/v1/x402/sessions';
  const wish = (agentId: string, more: Record<string, unknown> = {}) => ({
    ...{ agent_id: agentId, budget_limit: '5', chain: 'eip155:31337', ttl_seconds: 60 },
    ...more,
  });
  const create = (agentId: string, more: Record<string, unknown> = {}) =>
    account.call('POST', base, wish(agentId, more));
  async function fundedAgent(usdc = '20') {
    const agent = await createAgent(account);
    await world.local.fund(agent.address as Address, { eth: '1', usdc });
    return agent;
  }
  const available = async (agentId: string) => {
    const { body } = await account.call('GET', `/api/v1/agents/${agentId}/balances`);
    const { amount, available, reserved } = body.data.find(
      (each: { chain: string; token: string }) => each.chain === 'eip155:31337' && each.token === 'USDC',
    );
    return [amount, available, reserved];
  };
  const events = async (resourceId: string) =>
    (
      await world.api.pool.query<{ type: string; data: Record<string, unknown> }>(
        'select type, data from events where resource_id = $1 order by id',
        [resourceId],
      )
    ).rows;

  it('is made with its budget held out of the balance, shown, and given back when it is deleted', async () => {
    const agent = await fundedAgent();
    const allowed_urls = ['https://API.example.org/v1/', 'https://api.example.org'];
    const { status, body } = await create(agent.id, { budget_limit: '5.50', token: 'usdc', allowed_urls });
    expect([status, body]).toEqual([
      200,
      {
        id: expect.stringMatching(/^sess_/),
        agent_id: agent.id,
        budget_limit: '5.5',
        budget_spent: '0',
        budget_remaining: '5.5',
        chain: 'eip155:31337',
        token: 'USDC',
        status: 'active',
        allowed_urls: ['https://api.example.org/v1/', 'https://api.example.org/'],
        expires_at: expect.any(String),
        created_at: expect.any(String),
      },
    ]);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(60_000);
    expect((await account.call('GET', `${base}/${body.id}`)).body).toEqual(body);
    expect(await available(agent.id)).toEqual(['20', '14.5', '5.5']);
    for (const _again of [1, 2]) {
      const deleted = await account.call('DELETE', `${base}/${body.id}`);
      expect([deleted.status, deleted.body]).toEqual([200, { id: body.id, deleted: true }]);
    }
    expect(await available(agent.id)).toEqual(['20', '20', '0']);
    expect((await account.call('GET', `${base}/${body.id}`)).body).toEqual({ ...body, status: 'deleted' });
    expect(await events(body.id)).toEqual([
      { type: 'x402.session.created', data: body },
      { type: 'x402.session.deleted', data: { ...body, status: 'deleted' } },
    ]);
  });

  it('is refused where the wallet has less to spare, whoever holds the rest', async () => {
    const agent = await fundedAgent();
    const first = await create(agent.id, { budget_limit: '12' });
    const { rows } = await world.api.pool.query<{ id: string }>('select id from wallets where agent_id = $1', [
      agent.id,
    ]);
    const asset = world.local.usdcAddress;
    await putHolds(world.api.pool, {
      ...{ ownerId: newId('tx'), walletId: rows[0]!.id, chain: world.local.chain },
      holds: [{ asset, amountMinor: 3_000_000n }],
    });
    const { status, body } = await create(agent.id, { budget_limit: '5.000001' });
    expect([status, body]).toMatchObject([
      400,
      {
        code: 'insufficient_funds',
        param: 'budget_limit',
        details: { attempted: '5.000001', available: '5', reserved: '15', token: 'USDC' },
      },
    ]);
    expect((await create(agent.id, { budget_limit: '5' })).status).toBe(200);
    expect((await create(agent.id, { budget_limit: '0.000001' })).body.code).toBe('insufficient_funds');
    await account.call('DELETE', `${base}/${first.body.id}`);
    expect((await create(agent.id, { budget_limit: '12' })).status).toBe(200);
  });

  it('never promises more than the wallet has, however many are asked for at once', async () => {
    const agent = await fundedAgent('20');
    const answers = await Promise.all(Array.from({ length: 12 }, () => create(agent.id, { budget_limit: '3' })));
    const made = answers.filter(({ status }) => status === 200);
    expect(made).toHaveLength(6);
    for (const { status, body } of answers) if (status !== 200) expect(body.code).toBe('insufficient_funds');
    expect(await available(agent.id)).toEqual(['20', '2', '18']);
  });

  it('is made once for a key, and the answer is given again', async () => {
    const agent = await fundedAgent();
    const { post, expectReplay, expectConflict } = createKeyedCalls({ url: world.api.url, account });
    const headers = withKey(newKey());
    const first = await expectReplay('/x402/sessions', wish(agent.id), headers);
    await expectConflict('/x402/sessions', wish(agent.id, { budget_limit: '6' }), headers);
    const refused = withKey(newKey());
    expect((await post('/x402/sessions', wish(agent.id, { budget_limit: '100' }), refused)).status).toBe(400);
    await world.local.fund(agent.address as Address, { eth: '1', usdc: '200' });
    // A refusal is not kept.
    expect((await post('/x402/sessions', wish(agent.id, { budget_limit: '100' }), refused)).status).toBe(200);
    const twins = await Promise.all(
      Array.from({ length: 6 }, () => post('/x402/sessions', wish(agent.id), withKey(`${first.body.id} twin`))),
    );
    expect(new Set(twins.map(({ text }) => text)).size).toBe(1);
    const list = await account.call('GET', `${base}?agent_id=${agent.id}`);
    expect(list.body.total).toBe(3);
    const { rows } = await world.api.pool.query(
      'select count(*)::int as kept from idempotency_keys where expires_at is null and account_id = $1',
      [account.id],
    );
    expect(rows).toEqual([{ kept: 3 }]);
  });

  it('is expired by the clock, and cannot be deleted any more', async () => {
    const agent = await fundedAgent();
    const { body } = await create(agent.id);
    await expire(world.api, body);
    expect((await account.call('GET', `${base}/${body.id}`)).body.status).toBe('expired');
    const refused = await account.call('DELETE', `${base}/${body.id}`);
    expect([refused.status, refused.body.code]).toEqual([400, 'session_expired']);
    await expectBalancedBooks(world.api, body.id);
  });

  it('is listed by agent and by what it is at that moment', async () => {
    const [agent, other] = [await fundedAgent(), await fundedAgent()];
    const ids: string[] = [];
    for (const each of [agent, agent, agent, other]) ids.push((await create(each.id, { budget_limit: '1' })).body.id);
    await account.call('DELETE', `${base}/${ids[0]}`);
    await expire(world.api, { id: ids[1]! });
    const list = async (query: string) =>
      (await account.call('GET', `${base}?agent_id=${agent.id}${query}`)).body.data.map(
        (each: { id: string }) => each.id,
      );
    // The time of the one that has expired lies a day back.
    expect(await list('')).toEqual([ids[2], ids[0], ids[1]]);
    expect(await list('&status=deleted')).toEqual([ids[0]]);
    expect(await list('&status=expired')).toEqual([ids[1]]);
    expect(await list('&status=active')).toEqual([ids[2]]);
    expect(await list('&page_size=1&page_num=2')).toEqual([ids[0]]);
    expect((await account.call('GET', `${base}?page_size=1`)).body).toMatchObject({ has_more: true });
    const stranger = await world.api.account();
    expect((await stranger.call('GET', base)).body).toEqual({ data: [], total: 0, has_more: false });
    expect((await stranger.call('GET', `${base}?agent_id=${agent.id}`)).body.param).toBe('agent_id');
    expect((await stranger.call('DELETE', `${base}/${ids[2]}`)).status).toBe(404);
  });

  it('is followed by a workflow of its id', async () => {
    const agent = await fundedAgent();
    const { body } = await create(agent.id);
    const { type, taskQueue } = await world.temporal.workflow.getHandle(body.id).describe();
    expect([type, taskQueue]).toEqual(['x402Session', 'wallet']);
  });

  it('is not made for an agent that is inactive, for a token without signed authorisations, or where the chain cannot be read', async () => {
    const agent = await fundedAgent();
    const code = async (more: Record<string, unknown>) => {
      const { status, body } = await create(agent.id, more);
      return [status, body.code, body.param];
    };
    expect(await code({ token: 'ETH' })).toEqual([400, 'invalid_token', 'token']);
    expect(await code({ chain: deadChain })).toEqual([503, 'service_unavailable', undefined]);
    await account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'inactive' });
    expect(await code({})).toEqual([400, 'agent_inactive', 'agent_id']);
    await account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'active' });
    expect((await account.call('GET', `${base}?agent_id=${agent.id}`)).body.total).toBe(0);
  });
});
