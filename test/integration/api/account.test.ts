import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { createTestWebhook } from './webhook-calls.ts';

const path = '/api/v1/account';

let api: TestApi;
let account: TestAccount;
let owner: TestPerson;
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1', trustedProxies: ['127.0.0.1'] });
});
afterAll(() => api?.stop());
beforeEach(async () => {
  account = await api.account({ plan: 'growth' });
  owner = await account.person('ann@example.com');
});

const set = (body: unknown, by: Pick<TestPerson, 'call'> = owner, headers: Record<string, string> = {}) =>
  by.call('PUT', path, body, headers);
const from = (address: string) => ({ 'x-forwarded-for': address });

async function entries() {
  const { rows } = await api.pool.query(
    `select action, actor_id, changes from audit_inbox where account_id = $1 and action like 'account.%' order by created_at, id`,
    [account.id],
  );
  return rows;
}

describe('the account', () => {
  it('is shown with its plan, limits, counts and settings', async () => {
    const { status, body } = await account.call('GET', path);
    expect(status).toBe(200);
    expect(body).toEqual({
      id: account.id,
      name: 'test',
      plan: 'growth',
      limits: { requests_per_minute: 300, requests_per_day: 100_000, concurrent_requests: 25 },
      ip_allowlist: [],
      default_deny: false,
      policy_writes: 'any',
      owner_email: null,
      gas_top_ups: [],
      owner_key: null,
      counts: {
        agents: { used: 0, limit: 100 },
        webhooks: { used: 0, limit: 50 },
        x402_sessions: { used: 0, limit: 500 },
      },
      frozen: false,
      freeze: null,
      created_at: expect.stringMatching(/Z$/),
    });
    expect((await owner.call('GET', path)).body).toEqual(body);
  });

  it('counts what it has', async () => {
    await createAgent(account);
    await createAgent(account);
    const { id } = await createTestWebhook(account);
    await createTestWebhook(account);
    await account.call('DELETE', `/api/v1/webhooks/${id}`);
    const { counts } = (await account.call('GET', path)).body;
    expect(counts).toMatchObject({ agents: { used: 2 }, webhooks: { used: 1 }, x402_sessions: { used: 0 } });
  });

  it.each([
    ['starter', { requests_per_minute: 60, requests_per_day: 10_000, concurrent_requests: 5 }, [10, 10, 50]],
    [
      'enterprise',
      { requests_per_minute: null, requests_per_day: null, concurrent_requests: null },
      [null, null, null],
    ],
  ] as const)('has the limits of the plan %s', async (plan, limits, [agents, webhooks, sessions]) => {
    const other = await api.account({ plan });
    const { body } = await other.call('GET', path);
    expect(body).toMatchObject({
      ...{ plan, limits },
      counts: { agents: { limit: agents }, webhooks: { limit: webhooks }, x402_sessions: { limit: sessions } },
    });
  });

  it('of the plan enterprise has limits of its own where those are set', async () => {
    const other = await api.account();
    await api.pool.query('update accounts set requests_per_minute = 5000 where id = $1', [other.id]);
    expect((await other.call('GET', path)).body.limits).toEqual({
      requests_per_minute: 5000,
      requests_per_day: null,
      concurrent_requests: null,
    });
  });
});

describe('changing the account', () => {
  it('sets what is given, leaves the rest, and says what was and what is', async () => {
    const { body: before } = await owner.call('GET', path);
    const steps = [
      { name: 'Acme', owner_email: 'Boss@Example.com' },
      { default_deny: true, policy_writes: 'bearer', ip_allowlist: ['127.0.0.0/8'] },
      { default_deny: false, policy_writes: null },
    ];
    const seen = [];
    for (const step of steps) seen.push((await set(step)).body);
    const { counts, frozen, freeze, ...first } = before;
    const wanted = [
      { ...first, name: 'Acme', owner_email: 'boss@example.com' },
      {
        ...{ ...first, name: 'Acme', owner_email: 'boss@example.com' },
        ...{ default_deny: true, policy_writes: 'bearer', ip_allowlist: ['127.0.0.0/8'] },
      },
      {
        ...{ ...first, name: 'Acme', owner_email: 'boss@example.com' },
        ...{ default_deny: false, policy_writes: 'bearer', ip_allowlist: ['127.0.0.0/8'] },
      },
    ];
    expect(seen).toEqual(wanted.map((each) => ({ ...each, counts, frozen, freeze })));
    expect((await owner.call('GET', path)).body).toEqual(seen[2]);
    expect(await entries()).toEqual(
      wanted.map((after, index) => ({
        action: 'account.updated',
        actor_id: owner.userId,
        changes: { before: index === 0 ? first : wanted[index - 1], after },
      })),
    );
  });

  it('to what it is already is not logged', async () => {
    expect((await set({ default_deny: false, name: 'test' })).status).toBe(200);
    expect(await entries()).toEqual([]);
  });

  it.each([
    [{}, undefined, /at least one of name, ip_allowlist/],
    [{ name: null }, undefined, /at least one of/],
    [{ name: '' }, 'name', /at least 1 character/],
    [{ name: 'a'.repeat(129) }, 'name', /at most 128/],
    [{ plan: 'enterprise' }, 'plan', /set by whoever runs this installation/],
    [{ plan: 'enterprise', name: 'a' }, 'plan', /Leave it out/],
    [{ limits: { requests_per_minute: 1 } }, 'limits', /not known here/],
    [{ default_deny: 'yes' }, 'default_deny', /boolean/],
    [{ policy_writes: 'none' }, 'policy_writes', /"any" or "bearer"/],
    [{ owner_email: 'boss' }, 'owner_email', /e-mail address/],
    [{ ip_allowlist: '127.0.0.1' }, 'ip_allowlist', /array/],
    [{ ip_allowlist: ['127.0.0.1', 'localhost'] }, 'ip_allowlist.1', /no network such as/],
    [{ ip_allowlist: ['127.1'] }, 'ip_allowlist.0', /no network such as/],
    [{ ip_allowlist: ['10.0.0.0/33'] }, 'ip_allowlist.0', /more than 32 bits/],
    [{ ip_allowlist: ['10.1.2.3/8'] }, 'ip_allowlist.0', /10\.0\.0\.0\/8 is the network, 10\.1\.2\.3 the address/],
    [{ ip_allowlist: ['2001:db8::1/32'] }, 'ip_allowlist.0', /2001:db8::\/32 is the network/],
    [{ ip_allowlist: [7] }, 'ip_allowlist.0', /string/],
    [
      { ip_allowlist: Array.from({ length: 101 }, (_, n) => `127.0.${n}.0/24`) },
      'ip_allowlist',
      /at most 100 networks/,
    ],
  ])('to %j is refused', async (body, param, message) => {
    const answer = await set(body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect(answer.body.message).toMatch(message);
    expect(await entries()).toEqual([]);
  });

  it.each([
    ['viewer', 403],
    ['approver', 403],
    ['admin', 200],
    ['owner', 200],
  ] as const)('by a person whose role is %s is %i', async (role, status) => {
    const person = await account.person(`${role}@example.com`, { role });
    expect((await set({ default_deny: true }, person)).status).toBe(status);
    // To tighten and to loosen.
    expect((await set({ default_deny: false, policy_writes: 'any' }, person)).status).toBe(status);
  });

  it('by an API key is refused, whatever the key may', async () => {
    const answer = await set({ default_deny: false }, account);
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('sign in')]);
  });

  it('denies payments of agents without a policy from then on', async () => {
    await set({ default_deny: true });
    const { rows } = await api.pool.query('select default_deny from accounts where id = $1', [account.id]);
    expect(rows).toEqual([{ default_deny: true }]);
  });
});

describe('the allowlist of an account', () => {
  it('takes networks and addresses, each once, as networks', async () => {
    const given = ['127.0.0.1', '2001:DB8:0::/32', '127.0.0.1/32', '::ffff:192.0.2.0/120', '2001:db8::7'];
    const { status, body } = await set({ ip_allowlist: given });
    expect([status, body.ip_allowlist]).toEqual([
      200,
      ['127.0.0.1/32', '2001:db8::/32', '192.0.2.0/24', '2001:db8::7/128'],
    ]);
  });

  it('counts for keys and people from the next request on, and is lifted by an empty one', async () => {
    const inside = from('203.0.113.9');
    const outside = from('198.51.100.4');
    const get = async (by: Pick<TestPerson, 'call'>, headers: Record<string, string>) =>
      (await by.call('GET', path, undefined, headers)).status;
    expect((await set({ ip_allowlist: ['203.0.113.0/24'] }, owner, inside)).status).toBe(200);
    for (const by of [account, owner]) expect([await get(by, inside), await get(by, outside)]).toEqual([200, 403]);
    expect((await set({ ip_allowlist: [] }, owner, outside)).status).toBe(403);
    expect((await set({ ip_allowlist: [] }, owner, inside)).status).toBe(200);
    for (const by of [account, owner]) expect(await get(by, outside)).toBe(200);
  });

  it('that would shut out whoever sends it is refused, with the address that is seen', async () => {
    const seen = '198.51.100.4';
    const answer = await set({ name: 'not this', ip_allowlist: ['203.0.113.0/24'] }, owner, from(seen));
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', 'ip_allowlist']);
    expect(answer.body.message).toContain(`you come from ${seen}`);
    expect((await owner.call('GET', path)).body).toMatchObject({ name: 'test', ip_allowlist: [] });
    expect((await set({ ip_allowlist: ['203.0.113.0/24', seen] }, owner, from(seen))).status).toBe(200);
  });

  it('is for the plans growth and enterprise, which the refusal names', async () => {
    const small = await api.account({ plan: 'starter' });
    const person = await small.person('bob@example.com');
    const refused = await set({ ip_allowlist: ['127.0.0.1'] }, person);
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_permissions']);
    expect(refused.body.message).toMatch(/plans growth and enterprise; this account has starter/);
    expect((await set({ ip_allowlist: [] }, person)).status).toBe(200);
    const large = await (await api.account()).person('carl@example.com');
    expect((await set({ ip_allowlist: ['127.0.0.1'] }, large)).status).toBe(200);
  });
});
