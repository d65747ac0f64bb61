import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { inTransaction } from '../../../shared/db/pool.ts';
import { policyKinds } from '../../../shared/domain/policy/engine.ts';
import * as table from '../../../shared/domain/policy/table.ts';
import { createAgent, recipient, startTestApi, type TestAccount, type TestApi } from './harness.ts';

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

  const lower = recipient.toLowerCase();
  const approvers = ['Ops@Example.com'];

  /** Rules of every type, as they are sent and as they are answered. */
  const samples: Record<keyof typeof table, [sent: unknown, answered: unknown]> = {
    spending_limit: [
      { max_transaction_amount: '1.50', daily_limit: '10', monthly_limit: '100.0', token: 'usdc' },
      { max_transaction_amount: '1.5', daily_limit: '10', monthly_limit: '100', token: 'USDC' },
    ],
    address_control: [{ allowed_addresses: [lower, recipient] }, { allowed_addresses: [recipient] }],
    token_control: [{ allowed_tokens: ['usdc', 'ETH', 'USDC'] }, { allowed_tokens: ['USDC', 'ETH'] }],
    velocity_control: [
      { max_count: 10, window_seconds: 3600 },
      { max_count: 10, window_seconds: 3600 },
    ],
    schedule: [
      { timezone: 'America/New_York', allowed_hours: { start: 22, end: 6 }, allowed_days: [7, 1, 0] },
      { timezone: 'America/New_York', allowed_hours: { start: 22, end: 6 }, allowed_days: [0, 1] },
    ],
    human_approval: [
      { threshold: '25.00', approvers, token: 'stablecoins', timeout_seconds: null },
      {
        threshold: '25',
        approvers: ['ops@example.com'],
        token: 'stablecoins',
        timeout_seconds: 3600,
        required_approvals: 1,
      },
    ],
  };
  const types = Object.keys(samples) as (keyof typeof table)[];

  it.each(types)('takes, answers and replaces rules of type %s', async (type) => {
    const { id } = await createAgent(account);
    const [sent, answered] = samples[type];
    const created = await account.call('POST', '/api/v1/policies', { agent_id: id, type, rules: sent });
    expect([created.status, created.body.type, created.body.rules]).toEqual([200, type, answered]);
    const path = `/api/v1/policies/${created.body.id}`;
    expect((await account.call('GET', path)).body).toEqual(created.body);
    for (const rules of [sent, answered]) {
      const replaced = await account.call('PUT', path, { rules });
      expect([replaced.status, replaced.body.type, replaced.body.rules]).toEqual([200, type, answered]);
    }
  });

  it('takes exactly the types of the table, in the engine, in bodies and in the reference', async () => {
    const document = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
      paths: Record<string, { post: { requestBody: { content: Record<string, { schema: unknown }> } } }>;
      components: { schemas: Record<string, unknown> };
    };
    const body = document.paths['/api/v1/policies']?.post.requestBody.content['application/json']?.schema;
    const typesOf = (schema: unknown) =>
      (schema as { oneOf: { properties: { type: { const: string } } }[] }).oneOf.map(
        (each) => each.properties.type.const,
      );
    const known = Object.keys(table).sort();
    expect(types.toSorted()).toEqual(known);
    expect(Object.keys(policyKinds).sort()).toEqual(known);
    expect(typesOf(body).sort()).toEqual(known);
    expect(typesOf(document.components.schemas.Policy).sort()).toEqual(known);
    const refusal = await account.call('POST', '/api/v1/policies', { ...limit(agent.id), type: 'weather' });
    expect(refusal.body.message).toContain(Object.keys(table).join(', '));
  });

  it.each<[string, string, unknown, string, string]>([
    ['empty rules', 'spending_limit', {}, 'invalid_request', 'rules'],
    ['a limit of zero', 'spending_limit', { daily_limit: '0.00' }, 'invalid_amount', 'rules.daily_limit'],
    ['a limit that is a number', 'spending_limit', { daily_limit: 5 }, 'invalid_request', 'rules.daily_limit'],
    ['a limit with an exponent', 'spending_limit', { daily_limit: '1e3' }, 'invalid_amount', 'rules.daily_limit'],
    ['a negative limit', 'spending_limit', { daily_limit: '-1' }, 'invalid_amount', 'rules.daily_limit'],
    [
      'a limit for an unknown token',
      'spending_limit',
      { daily_limit: '1', token: 'X' },
      'invalid_token',
      'rules.token',
    ],
    ['an unknown member', 'spending_limit', { daily_limit: '1', xyz: 1 }, 'invalid_request', 'rules.xyz'],
    [
      'a member of another type',
      'spending_limit',
      { daily_limit: '1', max_count: 1 },
      'invalid_request',
      'rules.max_count',
    ],
    ['rules that are an array', 'spending_limit', [], 'invalid_request', 'rules'],
    ['rules that are null', 'spending_limit', null, 'invalid_request', 'rules'],
    ['rules that are missing', 'spending_limit', undefined, 'invalid_request', 'rules'],
    ['no list of addresses', 'address_control', {}, 'invalid_request', 'rules'],
    [
      'an empty list of addresses',
      'address_control',
      { allowed_addresses: [] },
      'invalid_request',
      'rules.allowed_addresses',
    ],
    [
      'an address with a wrong checksum',
      'address_control',
      { allowed_addresses: [recipient, recipient.replace('B', 'b')] },
      'invalid_address',
      'rules.allowed_addresses.1',
    ],
    [
      'an address that is a name',
      'address_control',
      { blocked_addresses: ['vitalik.eth'] },
      'invalid_address',
      'rules.blocked_addresses.0',
    ],
    [
      'an address that is a number',
      'address_control',
      { blocked_addresses: [1] },
      'invalid_request',
      'rules.blocked_addresses.0',
    ],
    [
      'an address in both lists',
      'address_control',
      { allowed_addresses: [recipient], blocked_addresses: [lower] },
      'invalid_request',
      'rules.blocked_addresses.0',
    ],
    ['an unknown token', 'token_control', { allowed_tokens: ['WETH'] }, 'invalid_token', 'rules.allowed_tokens.0'],
    ['a velocity without a window', 'velocity_control', { max_count: 1 }, 'invalid_request', 'rules.window_seconds'],
    ['a count of zero', 'velocity_control', { max_count: 0, window_seconds: 1 }, 'invalid_request', 'rules.max_count'],
    ['a time zone alone', 'schedule', { timezone: 'UTC' }, 'invalid_request', 'rules'],
    [
      'an offset for a zone',
      'schedule',
      { timezone: '+05:45', allowed_days: [1] },
      'invalid_request',
      'rules.timezone',
    ],
    [
      'hours that end as they start',
      'schedule',
      { timezone: 'UTC', allowed_hours: { start: 9, end: 9 } },
      'invalid_request',
      'rules.allowed_hours',
    ],
    [
      'an hour too late',
      'schedule',
      { timezone: 'UTC', allowed_hours: { start: 24, end: 9 } },
      'invalid_request',
      'rules.allowed_hours.start',
    ],
    [
      'a day too late',
      'schedule',
      { timezone: 'UTC', allowed_days: [1, 8] },
      'invalid_request',
      'rules.allowed_days.1',
    ],
    ['a threshold without approvers', 'human_approval', { threshold: '1' }, 'invalid_request', 'rules.approvers'],
    [
      'more approvals than approvers',
      'human_approval',
      { threshold: '1', approvers, required_approvals: 2 },
      'invalid_request',
      'rules.required_approvals',
    ],
    [
      'a timeout too short',
      'human_approval',
      { threshold: '1', approvers, timeout_seconds: 59 },
      'invalid_request',
      'rules.timeout_seconds',
    ],
  ])('refuses %s, when created and when replaced', async (_what, type, rules, code, param) => {
    const { id } = await createAgent(account);
    const created = await account.call('POST', '/api/v1/policies', { agent_id: id, type, rules });
    expect([created.status, created.body.code, created.body.param]).toEqual([400, code, param]);
    expect(created.body.message).toMatch(/^rules[\w.]* (must|is|has|are) .*\.$/);
    const [sent] = samples[type as keyof typeof table];
    const { body: existing } = await account.call('POST', '/api/v1/policies', { agent_id: id, type, rules: sent });
    const replaced = await account.call('PUT', `/api/v1/policies/${existing.id}`, { rules });
    expect([replaced.status, replaced.body.code, replaced.body.param]).toEqual([400, code, param]);
  });

  it('says which types are available', async () => {
    for (const type of ['weather', '', 'Schedule', 5, undefined]) {
      const { status, body } = await account.call('POST', '/api/v1/policies', { ...limit(agent.id), type });
      expect([status, body.param]).toEqual([400, 'type']);
      if (type !== undefined) expect(body.message).toContain('spending_limit');
    }
  });

  it('attaches at most 20 policies to an agent, however many ask at once', async () => {
    const { id } = await createAgent(account);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => account.call('POST', '/api/v1/policies', limit(id))),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
    for (const { status, body } of answers.filter((each) => each.status !== 200))
      expect([status, body.code]).toEqual([403, 'insufficient_permissions']);
    const { body: list } = await account.call('GET', `/api/v1/policies?agent_id=${id}`);
    expect(list.total).toBe(20);
    await account.call('DELETE', `/api/v1/policies/${list.data[0].id}`);
    expect((await account.call('POST', '/api/v1/policies', limit(id))).status).toBe(200);
  });

  it('changes a policy only when whoever judges by it has finished', async () => {
    const { id } = await createAgent(account);
    const { body: kept } = await account.call('POST', '/api/v1/policies', limit(id));
    const path = `/api/v1/policies/${kept.id}`;
    const requests: [string, string, unknown][] = [
      ['POST', '/api/v1/policies', limit(id)],
      ['PUT', path, { rules: { daily_limit: '1' } }],
      ['DELETE', path, undefined],
    ];
    for (const [method, url, body] of requests) {
      const { answer, order } = await inTransaction(api.pool, async (db) => {
        await db.query('select from agents where id = $1 for no key update', [id]);
        const order: string[] = [];
        const answer = account.call(method, url, body).finally(() => order.push('answered'));
        await vi.waitFor(
          async () => {
            const { rowCount } = await api.pool.query(
              `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
            );
            expect(rowCount).toBe(1);
          },
          { timeout: 60_000 },
        );
        order.push('judged');
        return { answer: { answer }, order };
      });
      expect([method, (await answer.answer).status, order]).toEqual([method, 200, ['judged', 'answered']]);
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
