import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Access, access } from '../../../api/access.ts';
import { hashApiKey, isApiKey } from '../../../shared/api-key.ts';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { scopes } from '../../../shared/domain/access.ts';
import { newId } from '../../../shared/ids.ts';
import { eventually } from '../../support/client.ts';
import { callWith, createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { holdersOf } from './holders.ts';

const path = '/api/v1/api-keys';
const lines: string[] = [];

let api: TestApi;
let account: TestAccount;
let owner: TestPerson;
beforeAll(async () => {
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  api = await startTestApi({ temporalAddress: '127.0.0.1:1', log });
  account = await api.account();
  owner = await account.person('ann@example.com');
});
afterAll(() => api?.stop());

async function make(body: Record<string, unknown>, by = owner) {
  const answer = await by.call('POST', path, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}
const using = (key: string) => callWith(api.url, { 'x-api-key': key });
const statusWith = async (key: string) => (await using(key)('GET', '/api/v1/agents')).status;
const rowOf = async (id: string) => (await api.pool.query('select * from api_keys where id = $1', [id])).rows[0];

describe('making an API key', () => {
  it('answers with the key, which works at once', async () => {
    const answer = await owner.call('POST', path, { name: 'of everything' });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^key_/),
      name: 'of everything',
      key: expect.stringMatching(/^purser_test_[0-9A-Za-z]{49}$/),
      prefix: `${answer.body.key.slice(0, 16)}…`,
      scopes,
      agent_id: null,
      expires_at: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      last_used_at: null,
    });
    expect(isApiKey(answer.body.key, { environment: 'sandbox' })).toBe(true);
    expect(await statusWith(answer.body.key)).toBe(200);
    expect((await rowOf(answer.body.id)).scopes).toBeNull();
  });

  it('limits it to scopes, in the order of the table and each once', async () => {
    const { key, scopes: held } = await make({
      name: 'reader',
      scopes: ['webhooks:read', 'agents:read', 'webhooks:read'],
    });
    expect(held).toEqual(['agents:read', 'webhooks:read']);
    const call = using(key);
    expect((await call('GET', '/api/v1/webhooks')).status).toBe(200);
    const refused = await call('GET', '/api/v1/policies');
    expect([refused.status, refused.body.message]).toEqual([403, expect.stringContaining('policies:read')]);
  });

  it('lets writing read as well', async () => {
    const { key } = await make({ name: 'writer', scopes: ['policies:write'] });
    expect((await using(key)('GET', '/api/v1/policies')).status).toBe(200);
  });

  it('binds it to an agent, with every scope that such a key can use', async () => {
    const agent = await createAgent(account);
    const other = await createAgent(account);
    const { key, id, agent_id, scopes: held } = await make({ name: 'of an agent', agent_id: agent.id });
    const usable = Object.values<Access>(access).flatMap((row) =>
      row.by === 'caller' && row.agentKeys && row.scope !== null ? [row.scope] : [],
    );
    expect([agent_id, held.toSorted()]).toEqual([agent.id, [...new Set(usable)].toSorted()]);
    expect(held).not.toContain('policies:write');
    expect((await rowOf(id)).scopes).toBeNull();
    expect((await using(key)('GET', '/api/v1/agents')).body.data.map((each: { id: string }) => each.id)).toEqual([
      agent.id,
    ]);
    expect((await using(key)('GET', `/api/v1/agents/${other.id}`)).status).toBe(404);
  });

  it('may give one of an agent less', async () => {
    const { id } = await createAgent(account);
    const { key, scopes: held } = await make({ name: 'reads', agent_id: id, scopes: ['agents:read'] });
    expect(held).toEqual(['agents:read']);
    expect((await using(key)('GET', '/api/v1/transactions')).status).toBe(403);
  });

  it('has it end by itself, and says so', async () => {
    const { id, key, expires_at } = await make({ name: 'of an hour', expires_at: '2100-01-01T02:00:00.5+02:00' });
    expect([expires_at, await statusWith(key)]).toEqual(['2100-01-01T00:00:00.500Z', 200]);
    await api.pool.query('update api_keys set expires_at = now() where id = $1', [id]);
    const { status, body } = await using(key)('GET', '/api/v1/agents');
    expect([status, body.code, body.message]).toEqual([401, 'authentication_failed', expect.stringMatching(/expired/)]);
  });

  it('brings its name into NFC, and takes the same name again', async () => {
    const { name } = await make({ name: 'cafe\u0301' });
    expect(name).toBe('café');
    expect((await make({ name: 'café' })).name).toBe('café');
  });

  it('takes null for what is left out', async () => {
    const { scopes: held, agent_id } = await make({ name: 'n', scopes: null, agent_id: null, expires_at: null });
    expect([held, agent_id]).toEqual([scopes, null]);
  });

  it.each([
    [{}, 'name', /required/],
    [{ name: '' }, 'name', /at least 1 character/],
    [{ name: 'a'.repeat(129) }, 'name', /at most 128 characters/],
    [{ name: 'a\nb' }, 'name', /control characters/],
    [{ name: 'a', scopes: [] }, 'scopes', /at least one scope/],
    [
      { name: 'a', scopes: ['agents:read', 'agents:fly'] },
      'scopes',
      /unknown scopes: "agents:fly"\. Known are: .*x402/,
    ],
    [{ name: 'a', scopes: 'agents:read' }, 'scopes', /array/],
    [{ name: 'a', scopes: [1] }, 'scopes.0', /string/],
    [{ name: 'a', agent_id: 'agent_1' }, 'agent_id', /no agent of this account/],
    [{ name: 'a', agent_id: newId('agent') }, 'agent_id', /no agent of this account/],
    [{ name: 'a', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at', /not in the future: it is 20/],
    [{ name: 'a', expires_at: '2100-01-01' }, 'expires_at', /RFC 3339/],
    [{ name: 'a', expires_at: '2100-01-01T00:00:00' }, 'expires_at', /RFC 3339/],
    [{ name: 'a', expires_at: '2100-02-30T00:00:00Z' }, 'expires_at', /RFC 3339/],
    [{ name: 'a', expires_at: '2100-01-01T00:00Z' }, 'expires_at', /RFC 3339/],
    [{ name: 'a', expires_at: '9999-12-31T23:59:59-01:00' }, 'expires_at', /RFC 3339/],
    [{ name: 'a', expires_at: 4102444800 }, 'expires_at', /string/],
    [{ name: 'a', key: 'mine' }, 'key', /not known here/],
  ])('refuses %j', async (body, param, message) => {
    const answer = await owner.call('POST', path, body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect(answer.body.message).toMatch(message);
  });

  it('refuses scopes that a key of one agent cannot use, and names them and the others', async () => {
    const { id } = await createAgent(account);
    const body = { name: 'a', agent_id: id, scopes: ['policies:write', 'x402:write', 'agents:write'] };
    const answer = await owner.call('POST', path, body);
    expect([answer.status, answer.body.param]).toEqual([400, 'scopes']);
    expect(answer.body.message).toMatch(/agents:write, policies:write\. It can use: agents:read, .*x402:write\.$/);
  });

  it('makes none for an agent that is being deleted', async () => {
    const { id } = await createAgent(account);
    const held = await api.pool.connect();
    try {
      await held.query('begin');
      await held.query('select from agents where id = $1 for update', [id]);
      await held.query(`update agents set status = 'inactive', deleted_at = now() where id = $1`, [id]);
      const made = owner.call('POST', path, { name: 'too late', agent_id: id });
      await eventually(
        () =>
          api.pool.query(
            `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        ({ rowCount }) => rowCount === 1,
      );
      await held.query('commit');
      expect([(await made).status, (await made).body.param]).toEqual([400, 'agent_id']);
    } finally {
      held.release();
    }
    const { rowCount } = await api.pool.query('select from api_keys where agent_id = $1', [id]);
    expect(rowCount).toBe(0);
  });

  it("refuses another account's agent, like one that does not exist", async () => {
    const stranger = await createAgent(await api.account());
    const answer = await owner.call('POST', path, { name: 'a', agent_id: stranger.id });
    expect([answer.status, answer.body.param]).toEqual([400, 'agent_id']);
  });
});

describe('the full value of a key', () => {
  it('F9 is in the answer, and nowhere else: not in the database, not in a log', async () => {
    const keyed = await owner.call('POST', path, { name: 'secret' }, { 'idempotency-key': 'secret' });
    await owner.call('POST', path, { name: 'secret' }, { 'idempotency-key': 'secret' });
    const { key, id } = keyed.body;
    expect(await statusWith(key)).toBe(200);
    await owner.call('GET', path);
    await owner.call('DELETE', `${path}/${id}`);
    expect(await holdersOf(api, key)).toEqual([]);
    // That the search finds what is there.
    expect(await holdersOf(api, id)).toEqual(expect.arrayContaining(['audit_inbox', 'idempotency_keys']));
    expect(lines.length).toBeGreaterThan(4);
    expect(lines.filter((line) => line.includes(key))).toEqual([]);
  });

  it('is kept as a hash', async () => {
    const { key, id } = await make({ name: 'hashed' });
    expect((await rowOf(id)).hash.equals(hashApiKey(key))).toBe(true);
  });
});

describe('an account', () => {
  it('has at most 1,000 keys, exactly, also when they are made at once', async () => {
    const full = await api.account();
    const person = await full.person('full@example.com');
    await api.pool.query(
      `insert into api_keys (id, account_id, name, prefix, hash)
       select 'key_' || n || $1, $1, 'many', 'purser_test_', decode(md5(n || $1), 'hex') from generate_series(1, 996) n`,
      [full.id],
    );
    const answers = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((n) => person.call('POST', path, { name: 'last' }, { 'idempotency-key': `last ${n}` })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, 403, 403, 403]);
    const refused = answers.find(({ status }) => status === 403)!;
    expect([refused.body.code, refused.body.message]).toEqual([
      'insufficient_permissions',
      expect.stringMatching(/has 1000 API keys.*Delete/),
    ]);
    // A refusal keeps nothing of its Idempotency-Key.
    await api.pool.query(`delete from api_keys where account_id = $1 and name = 'many'`, [full.id]);
    const again = answers.findIndex(({ status }) => status === 403) + 1;
    const repeated = await person.call('POST', path, { name: 'last' }, { 'idempotency-key': `last ${again}` });
    expect(repeated.status).toBe(200);
  });
});

describe('an API key', () => {
  it('never sees, makes or deletes keys, whatever it may', async () => {
    const { id } = await make({ name: 'target' });
    for (const [method, url, body] of [
      ['GET', path, undefined],
      ['POST', path, { name: 'a' }],
      ['DELETE', `${path}/${id}`, undefined],
    ] as const) {
      const answer = await account.call(method, url, body);
      expect([answer.status, answer.body.code, answer.body.message]).toEqual([
        403,
        'insufficient_permissions',
        expect.stringContaining('sign in'),
      ]);
    }
    expect(await rowOf(id)).toBeDefined();
  });

  it('is for admins and owners to make', async () => {
    for (const [role, status] of [
      ['viewer', 403],
      ['approver', 403],
      ['admin', 200],
    ] as const) {
      const person = await account.person(`${role}@example.com`, { role });
      expect([role, (await person.call('POST', path, { name: role })).status]).toEqual([role, status]);
    }
  });

  it('of the other environment is refused', async () => {
    const { key } = await createApiKey(api.pool, { accountId: account.id, name: 'live', environment: 'production' });
    const { status, body } = await using(key)('GET', '/api/v1/agents');
    expect([status, body.message]).toEqual([401, expect.stringContaining('sandbox')]);
  });
});
