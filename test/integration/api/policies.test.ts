import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = '127.0.0.1:1';

describe('policies', () => {
  let api: TestApi;
  let account: TestAccount;
  let agent: { id: string };

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
    account = await api.account();
    agent = await createAgent(account);
  });
  afterAll(() => api?.stop());

  const limit = (agentId: string, value: unknown = '100.50') => ({
    agent_id: agentId,
    type: 'spending_limit',
    rules: { max_transaction_amount: value },
  });

  it('creates, reads, replaces and deletes a policy', async () => {
    const created = await account.call('POST', '/api/v1/policies', limit(agent.id));
    expect(created.status).toBe(200);
    expect(created.body).toEqual({
      id: expect.stringMatching(/^pol_/),
      agent_id: agent.id,
      type: 'spending_limit',
      rules: { max_transaction_amount: '100.5' },
      created_at: expect.any(String),
      updated_at: created.body.created_at,
    });
    const path = `/api/v1/policies/${created.body.id}`;
    expect((await account.call('GET', path)).body).toEqual(created.body);
    const replaced = await account.call('PUT', path, { rules: { max_transaction_amount: '7' } });
    expect([replaced.status, replaced.body.rules]).toEqual([200, { max_transaction_amount: '7' }]);
    const deleted = await account.call('DELETE', path);
    expect([deleted.status, deleted.body]).toEqual([200, { id: created.body.id, deleted: true }]);
    expect((await account.call('DELETE', path)).status).toBe(404);
    expect((await account.call('GET', path)).status).toBe(404);
  });

  it('lists by agent', async () => {
    const other = await createAgent(account);
    const { body: created } = await account.call('POST', '/api/v1/policies', limit(other.id));
    const { body } = await account.call('GET', `/api/v1/policies?agent_id=${other.id}`);
    expect(body).toEqual({ data: [created], total: 1, has_more: false });
  });

  it.each([
    ['empty rules', {}, 'invalid_request', 'rules.max_transaction_amount'],
    ['a limit of zero', { max_transaction_amount: '0.00' }, 'invalid_amount', 'rules.max_transaction_amount'],
    ['a limit that is a number', { max_transaction_amount: 5 }, 'invalid_request', 'rules.max_transaction_amount'],
    ['a limit with an exponent', { max_transaction_amount: '1e3' }, 'invalid_amount', 'rules.max_transaction_amount'],
    ['a negative limit', { max_transaction_amount: '-1' }, 'invalid_amount', 'rules.max_transaction_amount'],
    ['an unknown member', { max_transaction_amount: '1', xyz: 1 }, 'invalid_request', 'rules.xyz'],
    ['a member of another type', { max_transaction_amount: '1', max_count: 1 }, 'invalid_request', 'rules.max_count'],
    ['rules that are an array', [], 'invalid_request', 'rules'],
    ['rules that are null', null, 'invalid_request', 'rules'],
  ])('refuses %s, when created and when replaced', async (_what, rules, code, param) => {
    const created = await account.call('POST', '/api/v1/policies', { ...limit(agent.id), rules });
    expect([created.status, created.body.code, created.body.param]).toEqual([400, code, param]);
    const { body: existing } = await account.call('POST', '/api/v1/policies', limit(agent.id));
    const replaced = await account.call('PUT', `/api/v1/policies/${existing.id}`, { rules });
    expect([replaced.status, replaced.body.code, replaced.body.param]).toEqual([400, code, param]);
  });

  it('says which types are available', async () => {
    for (const type of ['velocity_control', 'weather', 5, undefined]) {
      const { status, body } = await account.call('POST', '/api/v1/policies', { ...limit(agent.id), type });
      expect([status, body.param]).toEqual([400, 'type']);
      if (type !== undefined) expect(body.message).toContain('spending_limit');
    }
  });

  it("refuses another account's agent, and hides another account's policy before it looks at the body", async () => {
    const stranger = await api.account();
    const theirs = await createAgent(stranger);
    const { status, body } = await account.call('POST', '/api/v1/policies', limit(theirs.id));
    expect([status, body.code, body.param]).toEqual([400, 'invalid_request', 'agent_id']);
    const { body: policy } = await stranger.call('POST', '/api/v1/policies', limit(theirs.id));
    for (const id of [policy.id, 'pol_00000000000000000000000000', 'x']) {
      expect((await account.call('PUT', `/api/v1/policies/${id}?unknown=1`, '{broken')).status).toBe(404);
      expect((await account.call('GET', `/api/v1/policies/${id}`)).status).toBe(404);
      expect((await account.call('DELETE', `/api/v1/policies/${id}`)).status).toBe(404);
    }
    expect((await stranger.call('GET', `/api/v1/policies/${policy.id}`)).status).toBe(200);
  });
});
