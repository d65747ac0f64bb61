import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const path = '/api/v1/policy-templates';
const limit = { type: 'spending_limit', rules: { max_transaction_amount: '100' } };
const velocity = { type: 'velocity_control', rules: { max_count: 5, window_seconds: 60 } };

describe('policy templates', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  let names = 0;
  const body = (more: Record<string, unknown> = {}) => {
    names += 1;
    return { name: `template ${names}`, policies: [limit, velocity], ...more };
  };

  async function create(of: TestAccount, more: Record<string, unknown> = {}) {
    const answer = await of.call('POST', path, body(more));
    expect([answer.status, answer.body.message]).toEqual([200, undefined]);
    return answer.body as { id: string; name: string };
  }

  const setOwner = (of: TestAccount, email: string | null) =>
    api.pool.query('update accounts set owner_email = $2 where id = $1', [of.id, email]);

  const apply = (of: TestAccount, template: string, agentId: string, mode: string) =>
    of.call('POST', `${path}/${template}/apply`, { agent_id: agentId, mode });

  async function policiesOf(of: TestAccount, agentId: string) {
    const { body } = await of.call('GET', `/api/v1/policies?agent_id=${agentId}&page_size=100`);
    return body.data as { id: string; type: string; rules: unknown }[];
  }

  const ids = (entries: { id: string }[]) => entries.map(({ id }) => id).sort();

  /** Runs statements as the owner of the schema: what the api itself may not do. */
  async function asOwner(statement: string) {
    const url = new URL(inject('stack').ownerUrl);
    url.pathname = new URL(api.databaseUrl).pathname;
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  }

  it('creates, reads, replaces and deletes one', async () => {
    const created = await account.call('POST', path, {
      name: 'Cafe\u0301',
      description: 'line one\nline two',
      policies: [{ type: 'spending_limit', rules: { daily_limit: '1.50', token: 'usdc' } }, velocity],
    });
    expect(created.status).toBe(200);
    expect(created.body).toEqual({
      id: expect.stringMatching(/^ptpl_/),
      name: 'Caf\u00e9',
      description: 'line one\nline two',
      built_in: false,
      policies: [{ type: 'spending_limit', rules: { daily_limit: '1.5', token: 'USDC' } }, velocity],
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: created.body.created_at,
    });
    const own = `${path}/${created.body.id}`;
    expect((await account.call('GET', own)).body).toEqual(created.body);
    const replaced = await account.call('PUT', own, { name: 'Caf\u00e9', policies: [limit] });
    expect(replaced.status).toBe(200);
    expect(replaced.body).toEqual({
      ...created.body,
      description: null,
      policies: [limit],
      updated_at: expect.any(String),
    });
    expect((await account.call('GET', own)).body).toEqual(replaced.body);
    const deleted = await account.call('DELETE', own);
    expect([deleted.status, deleted.body]).toEqual([200, { id: created.body.id, deleted: true }]);
    expect((await account.call('DELETE', own)).status).toBe(404);
    expect((await account.call('GET', own)).status).toBe(404);
  });

  it('lists the newest first and the built-in ones last, on pages that do not overlap', async () => {
    const lister = await api.account();
    const own = [await create(lister), await create(lister), await create(lister), await create(lister)];
    const pages = await Promise.all(
      [1, 2, 3, 4].map((page) => lister.call('GET', `${path}?page_num=${page}&page_size=3`)),
    );
    expect(pages.map(({ body }) => [body.data.length, body.total, body.has_more])).toEqual([
      [3, 7, true],
      [3, 7, true],
      [1, 7, false],
      [0, 7, false],
    ]);
    const all = pages.flatMap(({ body }) => body.data as { id: string; name: string; created_at: string }[]);
    expect(all.map(({ id }) => id)).toEqual([
      ...own.map(({ id }) => id).reverse(),
      'ptpl_conservative',
      'ptpl_standard',
      'ptpl_permissive',
    ]);
    const ages = all.map(({ created_at }) => created_at);
    expect(ages).toEqual([...ages].sort().reverse());
    const { body: none } = await (await api.account()).call('GET', path);
    expect([none.total, none.data.length, none.has_more]).toEqual([3, 3, false]);
  });

  it('shows a built-in one by name and identifier, with the owner as its approver', async () => {
    const owned = await api.account();
    const read = async (name: string) => (await owned.call('GET', `${path}/${name}`)).body;
    expect(await read('conservative')).toMatchObject({ id: 'ptpl_conservative', name: 'conservative', built_in: true });
    expect((await read('conservative')).policies[3].rules.approvers).toEqual([]);
    await setOwner(owned, 'owner@example.com');
    const template = await read('conservative');
    expect(template.policies[3].rules).toEqual({
      threshold: '25',
      approvers: ['owner@example.com'],
      timeout_seconds: 3600,
      required_approvals: 1,
      token: 'stablecoins',
    });
    expect(await read('ptpl_conservative')).toEqual(template);
    expect((await owned.call('GET', path)).body.data[0]).toEqual(template);
  });

  it('keeps the built-in ones read-only, before it looks at the body', async () => {
    for (const name of ['conservative', 'standard', 'permissive', 'ptpl_permissive'])
      for (const [method, sent] of [['PUT', body()], ['PUT', '{broken'], ['DELETE']] as const) {
        const answer = await account.call(method, `${path}/${name}`, sent);
        expect([name, answer.status, answer.body.code]).toEqual([name, 403, 'insufficient_permissions']);
      }
  });

  it('lets a name be had once an account, compared exactly, also when many ask at once', async () => {
    const [one, other] = [await api.account(), await api.account()];
    const answers = await Promise.all([1, 2, 3].map(() => one.call('POST', path, body({ name: 'twin' }))));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
    const refused = answers.find(({ status }) => status === 400)!;
    expect(refused.body).toMatchObject({ code: 'invalid_request', param: 'name' });
    await create(one, { name: 'Twin' });
    await create(other, { name: 'twin' });
    await create(one, { name: 'Standard' });
    const third = await create(one);
    const renamed = await one.call('PUT', `${path}/${third.id}`, body({ name: 'twin' }));
    expect([renamed.status, renamed.body.param]).toEqual([400, 'name']);
    expect((await one.call('GET', `${path}/${third.id}`)).body.name).toBe(third.name);
  });

  it.each([
    ['no name', { name: undefined }, 'invalid_request', 'name'],
    ['an empty name', { name: '' }, 'invalid_request', 'name'],
    ['a name of 129', { name: 'x'.repeat(129) }, 'invalid_request', 'name'],
    ['a control character', { name: 'a\u0000' }, 'invalid_request', 'name'],
    ["a built-in one's name", { name: 'standard' }, 'invalid_request', 'name'],
    ['a long description', { description: 'x'.repeat(1025) }, 'invalid_request', 'description'],
    ['no policies', { policies: undefined }, 'invalid_request', 'policies'],
    ['empty policies', { policies: [] }, 'invalid_request', 'policies'],
    ['21 policies', { policies: Array(21).fill(limit) }, 'invalid_request', 'policies'],
    ['a policy of no type', { policies: [limit, { rules: {} }] }, 'invalid_request', 'policies.1.type'],
    ['an unknown type', { policies: [{ type: 'weather', rules: {} }] }, 'invalid_request', 'policies.0.type'],
    ['an agent', { policies: [{ ...limit, agent_id: 'agent_x' }] }, 'invalid_request', 'policies.0.agent_id'],
    ['no rules', { policies: [{ type: 'schedule' }] }, 'invalid_request', 'policies.0.rules'],
    [
      "another type's member",
      { policies: [velocity, { type: 'spending_limit', rules: { ...limit.rules, max_count: 1 } }] },
      'invalid_request',
      'policies.1.rules.max_count',
    ],
    [
      'a limit of zero',
      { policies: [{ type: 'spending_limit', rules: { daily_limit: '0' } }] },
      'invalid_amount',
      'policies.0.rules.daily_limit',
    ],
    [
      'an unknown token',
      { policies: [{ type: 'token_control', rules: { allowed_tokens: ['USDC', 'DOGE'] } }] },
      'invalid_token',
      'policies.0.rules.allowed_tokens.1',
    ],
    [
      'a bad address',
      { policies: [{ type: 'address_control', rules: { blocked_addresses: ['0x12'] } }] },
      'invalid_address',
      'policies.0.rules.blocked_addresses.0',
    ],
    ['an unknown member', { built_in: true }, 'invalid_request', 'built_in'],
  ])('refuses %s, when created and when replaced', async (_what, more, code, param) => {
    const created = await account.call('POST', path, body(more));
    expect([created.status, created.body.code, created.body.param]).toEqual([400, code, param]);
    const existing = await create(account);
    const replaced = await account.call('PUT', `${path}/${existing.id}`, body(more));
    expect([replaced.status, replaced.body.code, replaced.body.param]).toEqual([400, code, param]);
    expect((await account.call('GET', `${path}/${existing.id}`)).body).toEqual(existing);
  });

  it("hides another account's template before it looks at the body", async () => {
    const theirs = await create(await api.account());
    for (const id of [theirs.id, 'ptpl_00000000000000000000000000', 'Standard', 'constructor', '__proto__', 'x']) {
      expect((await account.call('GET', `${path}/${id}`)).status).toBe(404);
      expect((await account.call('PUT', `${path}/${id}`, '{broken')).status).toBe(404);
      expect((await account.call('DELETE', `${path}/${id}`)).status).toBe(404);
      expect((await account.call('POST', `${path}/${id}/apply`, '{broken')).status).toBe(404);
    }
    expect((await account.call('GET', path)).body.data.map(({ id }: { id: string }) => id)).not.toContain(theirs.id);
  });

  describe('applied', () => {
    it('appends copies that no later change of the template reaches', async () => {
      const agent = await createAgent(account);
      const { body: before } = await account.call('POST', '/api/v1/policies', { agent_id: agent.id, ...velocity });
      const template = await create(account);
      const { status, body: applied } = await apply(account, template.id, agent.id, 'append');
      expect(status).toBe(200);
      expect(applied).toEqual({
        data: [limit, velocity].map((policy) => ({
          id: expect.stringMatching(/^pol_/),
          agent_id: agent.id,
          ...policy,
          created_at: expect.any(String),
          updated_at: expect.any(String),
        })),
      });
      await account.call('PUT', `${path}/${template.id}`, body({ policies: [velocity] }));
      await account.call('DELETE', `${path}/${template.id}`);
      expect(ids(await policiesOf(account, agent.id))).toEqual(ids([before, ...applied.data]));
      for (const policy of applied.data)
        expect((await account.call('GET', `/api/v1/policies/${policy.id}`)).body).toEqual(policy);
    });

    it('replaces all that this agent has, and nothing of another', async () => {
      const [agent, other] = [await createAgent(account), await createAgent(account)];
      for (const { id } of [agent, other])
        for (const policy of [limit, limit, velocity])
          await account.call('POST', '/api/v1/policies', { agent_id: id, ...policy });
      const others = await policiesOf(account, other.id);
      const { body: applied } = await apply(account, 'permissive', agent.id, 'replace');
      expect(applied.data.map(({ type }: { type: string }) => type)).toEqual([
        'spending_limit',
        'token_control',
        'velocity_control',
      ]);
      expect(ids(await policiesOf(account, agent.id))).toEqual(ids(applied.data));
      expect(await policiesOf(account, other.id)).toEqual(others);
    });

    it('asks the owner where a built-in template wants approval, and says how to set one while there is none', async () => {
      const owned = await api.account();
      const agent = await createAgent(owned);
      await owned.call('POST', '/api/v1/policies', { agent_id: agent.id, ...limit });
      for (const name of ['conservative', 'standard']) {
        const { status, body } = await apply(owned, name, agent.id, 'replace');
        expect([status, body.code]).toEqual([400, 'invalid_request']);
        expect(body.message).toContain('owner_email');
        expect(body.message).toContain(`npm run admin -- account set --id ${owned.id} --owner`);
      }
      expect(await policiesOf(owned, agent.id)).toHaveLength(1);
      expect((await apply(owned, 'permissive', agent.id, 'replace')).status).toBe(200);
      await setOwner(owned, 'owner@example.com');
      const { body: applied } = await apply(owned, 'conservative', agent.id, 'replace');
      expect(applied.data[3]).toMatchObject({
        type: 'human_approval',
        rules: { threshold: '25', approvers: ['owner@example.com'], token: 'stablecoins' },
      });
    });

    it('gives policies of which each can be replaced like any other', async () => {
      const agent = await createAgent(account);
      const { body: applied } = await apply(account, 'permissive', agent.id, 'append');
      const spending = applied.data[0];
      const { status } = await account.call('PUT', `/api/v1/policies/${spending.id}`, { rules: spending.rules });
      expect(status).toBe(200);
    });

    it.each([
      [{ mode: 'append' }, 'agent_id'],
      [{ agent_id: 'agent_x', mode: 'append' }, 'agent_id'],
      [{ agent_id: 'agent_00000000000000000000000000', mode: 'append' }, 'agent_id'],
      [{ agent_id: 'agent_00000000000000000000000000' }, 'mode'],
      [{ agent_id: 'agent_00000000000000000000000000', mode: 'merge' }, 'mode'],
      [{ agent_id: 'agent_00000000000000000000000000', mode: 'append', x: 1 }, 'x'],
    ])('refuses %j', async (sent, param) => {
      const { status, body } = await account.call('POST', `${path}/permissive/apply`, sent);
      expect([status, body.code, body.param]).toEqual([400, 'invalid_request', param]);
    });

    it("refuses another account's agent and leaves it alone", async () => {
      const stranger = await api.account();
      const theirs = await createAgent(stranger);
      await stranger.call('POST', '/api/v1/policies', { agent_id: theirs.id, ...limit });
      const { status, body } = await apply(account, 'permissive', theirs.id, 'replace');
      expect([status, body.param]).toEqual([400, 'agent_id']);
      expect(await policiesOf(stranger, theirs.id)).toHaveLength(1);
    });

    it('never passes 20 policies an agent, also when many apply at once', async () => {
      const agent = await createAgent(account);
      const template = await create(account, { policies: Array(6).fill(limit) });
      const answers = await Promise.all(
        Array.from({ length: 6 }, () => apply(account, template.id, agent.id, 'append')),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 403, 403, 403]);
      expect(answers.find(({ status }) => status === 403)?.body.code).toBe('insufficient_permissions');
      const before = await policiesOf(account, agent.id);
      expect(before).toHaveLength(18);
      expect((await apply(account, 'permissive', agent.id, 'append')).status).toBe(403);
      expect(await policiesOf(account, agent.id)).toEqual(before);
      const full = await create(account, { policies: Array(20).fill(limit) });
      expect((await apply(account, full.id, agent.id, 'replace')).status).toBe(200);
      expect(await policiesOf(account, agent.id)).toHaveLength(20);
    });

    it('leaves exactly one set when many replace at once', async () => {
      const agent = await createAgent(account);
      const template = await create(account);
      for (let round = 0; round < 5; round += 1) {
        const answers = await Promise.all(
          ['permissive', template.id, 'permissive', template.id].map((name) =>
            apply(account, name, agent.id, 'replace'),
          ),
        );
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
        const left = ids(await policiesOf(account, agent.id)).join();
        expect(answers.filter(({ body }) => ids(body.data).join() === left)).toHaveLength(1);
      }
    });

    it('leaves everything as before when it fails midway', async () => {
      const agent = await createAgent(account);
      const template = await create(account, { policies: [limit, limit, velocity] });
      await account.call('POST', '/api/v1/policies', { agent_id: agent.id, ...limit });
      const before = await policiesOf(account, agent.id);
      await asOwner(`alter table policies add constraint fails_midway check (type <> 'velocity_control') not valid`);
      try {
        for (const mode of ['replace', 'append'])
          expect((await apply(account, template.id, agent.id, mode)).status).toBe(500);
      } finally {
        await asOwner('alter table policies drop constraint fails_midway');
      }
      expect(await policiesOf(account, agent.id)).toEqual(before);
      expect((await apply(account, template.id, agent.id, 'replace')).status).toBe(200);
    });
  });
});
