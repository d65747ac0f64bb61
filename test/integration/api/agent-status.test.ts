import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';

describe('the status of an agent', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  const path = (id: string) => `/api/v1/agents/${id}/status`;

  async function eventsOf(agentId: string) {
    const { rows } = await api.pool.query(
      `select type, account_id, resource_type, resource_id, data from events where agent_id = $1 and type <> 'agent.created' order by created_at, id`,
      [agentId],
    );
    return rows;
  }

  it('stops new payments, leaves reading alone, and lets payments pass again', async () => {
    const agent = await createAgent(account);
    const { body: earlier } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    const stopped = await account.call('PUT', path(agent.id), { status: 'inactive' });
    expect([stopped.status, stopped.body.id, stopped.body.status]).toEqual([200, agent.id, 'inactive']);

    const refused = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    expect([refused.status, refused.body.code, refused.body.param]).toEqual([400, 'agent_inactive', 'agent_id']);
    expect((await account.call('GET', `/api/v1/agents/${agent.id}`)).body).toEqual(stopped.body);
    expect((await account.call('GET', `/api/v1/transactions/${earlier.id}`)).status).toBe(200);
    const { body: list } = await account.call('GET', `/api/v1/transactions?agent_id=${agent.id}`);
    expect(list.total).toBe(1);

    expect((await account.call('PUT', path(agent.id), { status: 'active' })).body.status).toBe('active');
    expect((await account.call('POST', '/api/v1/transactions', payment(agent.id))).status).toBe(200);
  });

  it('makes one event a change, also when many ask for the same at once, and none without a change', async () => {
    const agent = await createAgent(account);
    const set = (status: string) => account.call('PUT', path(agent.id), { status });
    expect((await set('active')).body.status).toBe('active');
    expect(await eventsOf(agent.id)).toEqual([]);
    const answers = await Promise.all(Array.from({ length: 6 }, () => set('inactive')));
    expect(answers.map(({ status, body }) => [status, body.status])).toEqual(answers.map(() => [200, 'inactive']));
    expect(await eventsOf(agent.id)).toEqual([
      {
        type: 'agent.status_changed',
        account_id: account.id,
        resource_type: 'agent',
        resource_id: agent.id,
        data: answers[0]!.body,
      },
    ]);
    await set('active');
    expect((await eventsOf(agent.id)).map(({ data }) => data.status)).toEqual(['inactive', 'active']);
  });

  it('waits for whoever judges a payment of the agent', async () => {
    const agent = await createAgent(account);
    const judge = await api.pool.connect();
    try {
      await judge.query('begin');
      await judge.query('select from agents where id = $1 for no key update', [agent.id]);
      const stopping = account.call('PUT', path(agent.id), { status: 'inactive' });
      await expect
        .poll(async () => {
          const { rows } = await api.pool.query(
            `select count(*)::int as waiting from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'`,
          );
          return rows[0].waiting;
        })
        .toBe(1);
      expect((await account.call('GET', `/api/v1/agents/${agent.id}`)).body.status).toBe('active');
      await judge.query('commit');
      expect((await stopping).body.status).toBe('inactive');
    } finally {
      judge.release();
    }
  });

  it.each([
    [{}, 'status'],
    [{ status: 'paused' }, 'status'],
    [{ status: null }, 'status'],
    [{ status: 'Active' }, 'status'],
    [{ status: 'inactive', reason: 'x' }, 'reason'],
    [[], undefined],
  ])('refuses %j', async (body, param) => {
    const agent = await createAgent(account);
    const answer = await account.call('PUT', path(agent.id), body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect((await account.call('GET', `/api/v1/agents/${agent.id}`)).body.status).toBe('active');
  });

  it("answers 404 for another account's agent and for none, before it looks at the body", async () => {
    const theirs = await createAgent(await api.account());
    for (const id of [theirs.id, 'agent_00000000000000000000000000', 'x'])
      expect((await account.call('PUT', path(id), '{broken')).status).toBe(404);
    expect(await eventsOf(theirs.id)).toEqual([]);
  });
});
