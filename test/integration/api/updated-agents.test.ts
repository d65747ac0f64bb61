import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';

describe('a change of what an agent is called', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  const path = (id: string) => `/api/v1/agents/${id}`;
  const put = (id: string, body: unknown) => account.call('PUT', path(id), body);
  const named = { agent_description: 'Buys data.', metadata: '{"team":"ops"}' };
  async function updatesOf(agentId: string) {
    const { rows } = await api.pool.query(
      `select changes from audit_inbox where agent_id = $1 and action = 'agent.updated' order by created_at`,
      [agentId],
    );
    return rows.map(({ changes }) => (typeof changes === 'string' ? JSON.parse(changes) : changes));
  }

  it('takes what is given and leaves the rest; null takes away what an agent need not have', async () => {
    const { id } = await createAgent(account, named);
    const { body: before } = await account.call('GET', path(id));
    const renamed = await put(id, { agent_name: 'Jose\u0301' });
    expect([renamed.status, renamed.body]).toEqual([200, { ...before, agent_name: 'Jos\u00e9' }]);
    expect((await put(id, { agent_description: null })).body).toEqual({ ...renamed.body, agent_description: null });
    const last = { ...renamed.body, agent_description: 'Pays\nbills.', metadata: null };
    expect((await put(id, { agent_description: 'Pays\nbills.', metadata: null, agent_name: null })).body).toEqual(last);
    expect((await account.call('GET', path(id))).body).toEqual(last);
    expect(await updatesOf(id)).toHaveLength(3);
    expect((await updatesOf(id))[0]).toEqual({ before, after: renamed.body });
  });

  it('is no change, and is not logged, where everything is so already', async () => {
    const { id } = await createAgent(account, named);
    expect((await put(id, named)).status).toBe(200);
    expect(await updatesOf(id)).toEqual([]);
  });

  it('does not take a name of another agent, also where two ask for it at once, but its own', async () => {
    const [first, second] = [await createAgent(account), await createAgent(account)];
    const { body } = await account.call('GET', path(first.id));
    const taken = await put(second.id, { agent_name: body.agent_name, metadata: '{}' });
    expect([taken.status, taken.body.code, taken.body.param]).toEqual([400, 'invalid_request', 'agent_name']);
    expect((await account.call('GET', path(second.id))).body.metadata).toBeNull();
    expect((await put(first.id, { agent_name: body.agent_name })).status).toBe(200);
    const both = await Promise.all([first, second].map(({ id }) => put(id, { agent_name: 'wanted by two' })));
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 400]);
    const strangers = await createAgent(await api.account(), { agent_name: 'theirs' });
    expect(strangers.id).toBeTruthy();
    expect((await put(first.id, { agent_name: 'theirs' })).status).toBe(200);
  });

  it('is made for an inactive agent too, and makes no payment wait', async () => {
    const { id } = await createAgent(account);
    const judge = await api.pool.connect();
    try {
      await judge.query('begin');
      await judge.query('select from agents where id = $1 for key share', [id]);
      expect((await put(id, { agent_name: 'renamed beside a payment' })).status).toBe(200);
      await judge.query('commit');
    } finally {
      judge.release();
    }
    await account.call('PUT', `${path(id)}/status`, { status: 'inactive' });
    expect((await put(id, { metadata: '{}' })).body).toMatchObject({ status: 'inactive', metadata: '{}' });
    expect((await account.call('POST', '/api/v1/transactions', payment(id))).body.code).toBe('agent_inactive');
  });

  it.each([
    [{}, undefined],
    [{ agent_name: null }, undefined],
    [{ agent_name: '' }, 'agent_name'],
    [{ agent_name: 'x'.repeat(129) }, 'agent_name'],
    [{ agent_name: 'a\u0000b' }, 'agent_name'],
    [{ agent_description: 'x'.repeat(1025) }, 'agent_description'],
    [{ metadata: '[]' }, 'metadata'],
    [{ metadata: {} }, 'metadata'],
    [{ agent_name: 'x', status: 'inactive' }, 'status'],
    [{ agent_name: 'x', chain: 'eip155:31337' }, 'chain'],
    [[], undefined],
  ])('refuses %j', async (body, param) => {
    const { id } = await createAgent(account, named);
    const before = (await account.call('GET', path(id))).body;
    const answer = await put(id, body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect((await account.call('GET', path(id))).body).toEqual(before);
  });

  it("answers 404 for another account's agent and for none, before it looks at the body", async () => {
    const theirs = await createAgent(await api.account());
    for (const id of [theirs.id, 'agent_00000000000000000000000000', 'x'])
      expect((await account.call('PUT', path(id), '{broken')).status).toBe(404);
  });
});
