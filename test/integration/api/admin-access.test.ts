import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isApiKey } from '../../../shared/api-key.ts';
import { scopes } from '../../../shared/domain/access.ts';
import { byOperator, createAdmin, entriesOf } from './admin-calls.ts';
import { callWith, createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = 'acct_00000000000000000000000000';

let api: TestApi;
let account: TestAccount;
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
});
afterAll(() => api?.stop());
beforeEach(async () => {
  account = await api.account();
});

const { run, runProcess } = createAdmin({ databaseUrl: () => api.databaseUrl });
async function done(...args: string[]) {
  const { code, stdout, stderr } = await run(args);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}
async function refusal(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect([code, stdout]).toEqual([expect.toBeOneOf([1, 2]), '']);
  return stderr;
}
const statusWith = async (key: string) =>
  (await callWith(api.url, { 'x-api-key': key })('GET', '/api/v1/agents')).status;
const logged = async (...actions: string[]) =>
  (await entriesOf(api.pool, account.id)).filter(({ action }) => actions.includes(action));

describe('npm run admin -- key', () => {
  it('create prints a key that works, this once', async () => {
    const made = await done('key', 'create', '--account', account.id, '--name', 'by the operator');
    expect(made).toMatchObject({ name: 'by the operator', scopes, agent_id: null, expires_at: null });
    expect([isApiKey(made.key, { environment: 'sandbox' }), await statusWith(made.key)]).toEqual([true, 200]);
    const list = await run(['key', 'list', '--account', account.id]);
    expect(JSON.parse(list.stdout).data.map(({ id }: { id: string }) => id)).toContain(made.id);
    expect(list.stdout).not.toContain(made.key);
    const [entry] = await logged('api_key.created');
    const { key: secret, ...shown } = made;
    expect(entry).toMatchObject({ ...byOperator, resource_id: made.id, changes: { before: null, after: shown } });
    expect(JSON.stringify(entry)).not.toContain(secret);
  });

  it('create binds it to an agent and to scopes, and has it end', async () => {
    const { id } = await createAgent(account);
    const made = await done(
      ...['key', 'create', '--account', account.id, '--name', 'n', '--agent', id],
      ...['--scopes', 'x402:write, agents:read', '--expires-days', '30'],
    );
    expect(made).toMatchObject({ agent_id: id, scopes: ['agents:read', 'x402:write'] });
    const { rows } = await api.pool.query(
      `select expires_at between now() + interval '30 days' - interval '5 minutes' and now() + interval '30 days' as is_right
       from api_keys where id = $1`,
      [made.id],
    );
    expect(rows).toEqual([{ is_right: true }]);
  });

  it('delete has it refused at once', async () => {
    const made = await done('key', 'create', '--account', account.id, '--name', 'short');
    expect(await statusWith(made.key)).toBe(200);
    expect(await done('key', 'delete', '--id', made.id)).toEqual({ id: made.id, deleted: true });
    expect(await statusWith(made.key)).toBe(401);
    expect(await logged('api_key.deleted')).toMatchObject([{ ...byOperator, resource_id: made.id }]);
    expect(await refusal('key', 'delete', '--id', made.id)).toBe(`There is no API key ${made.id}.\n`);
  });

  it('create names the option that is at fault', async () => {
    const { id } = await createAgent(await api.account());
    const own = await createAgent(account);
    const create = (...more: string[]) => refusal('key', 'create', '--account', account.id, '--name', 'n', ...more);
    expect(await create('--agent', id)).toMatch(/^--agent "agent_.*" is no agent of this account/);
    expect(await create('--agent', 'x')).toMatch(/^--agent is no identifier of an agent/);
    expect(await create('--scopes', 'agents:fly')).toMatch(/^--scopes names unknown scopes: "agents:fly"/);
    expect(await create('--scopes', '')).toMatch(/^--scopes names unknown scopes/);
    expect(await create('--agent', own.id, '--scopes', 'policies:write')).toMatch(
      /^--scopes names what a key of one agent cannot use: policies:write/,
    );
    for (const days of ['0', '-1', '1.5', '3651', 'x'])
      expect(await create(`--expires-days=${days}`)).toMatch(/^--expires-days must be a whole number from 1 to 3650/);
    expect(await refusal('key', 'create', '--name', 'n')).toMatch(/^--account is missing/);
    expect(await refusal('key', 'create', '--account', nobody)).toMatch(/^--name is missing/);
    expect(await refusal('key', 'create', '--account', nobody, '--name', 'n')).toBe(`There is no account ${nobody}.\n`);
    expect(await refusal('key', 'list', '--account', nobody)).toBe(`There is no account ${nobody}.\n`);
    expect(await refusal('key', 'delete', '--id', account.id)).toMatch(/^--id is no identifier of an API key/);
  });
});

describe('npm run admin -- revoke-all', () => {
  it('ends every key and every session of the account, and no other', async () => {
    const other = await api.account();
    const outsider = await other.person('ann@example.com');
    const people = [await account.person('ann@example.com'), await account.person('bob@example.com')];
    const made = await done('key', 'create', '--account', account.id, '--name', 'second');
    await api.pool.query(
      `insert into exchange_codes (hash, account_id, user_id, expires_at)
       values ('\\x01', $1, $2, now() + interval '1 minute')`,
      [account.id, people[0]!.userId],
    );
    const answer = await done('revoke-all', '--account', account.id, '--reason', 'A laptop was stolen.');
    expect(answer).toEqual({ account_id: account.id, keys_deleted: 2, sessions_revoked: 2 });
    for (const key of [account.key, made.key]) expect(await statusWith(key)).toBe(401);
    for (const { call } of people) expect((await call('GET', '/api/v1/agents')).status).toBe(401);
    expect([await statusWith(other.key), (await outsider.call('GET', '/api/v1/agents')).status]).toEqual([200, 200]);
    const { rowCount } = await api.pool.query('select from exchange_codes where account_id = $1', [account.id]);
    expect(rowCount).toBe(0);
    const entries = await logged('api_key.deleted', 'session.revoked');
    expect(entries.map(({ action }) => action).toSorted()).toEqual([
      'api_key.deleted',
      'api_key.deleted',
      'session.revoked',
      'session.revoked',
    ]);
    for (const entry of entries)
      expect(entry).toMatchObject({
        ...byOperator,
        metadata: { reason: 'revoked_by_operator', note: 'A laptop was stolen.' },
      });
    // Whoever belongs to the account can come back.
    expect((await (await account.person('ann@example.com')).call('GET', '/api/v1/agents')).status).toBe(200);
    const again = await done('revoke-all', '--account', account.id, '--reason', 'Again.');
    expect(again).toMatchObject({ keys_deleted: 0, sessions_revoked: 1 });
  });

  it('is all or nothing', async () => {
    const person = await account.person('ann@example.com');
    const { rows } = await api.pool.query('select id from api_keys where account_id = $1', [account.id]);
    const held = await api.pool.connect();
    try {
      // Whoever holds a session for longer than a statement may take: the keys are deleted by then, and are not.
      await held.query('begin');
      await held.query('select from auth_sessions where id = $1 for update', [person.sessionId]);
      const url = new URL(api.databaseUrl);
      url.searchParams.set('options', '-c lock_timeout=500');
      const { code } = await runProcess(['revoke-all', '--account', account.id, '--reason', 'Stuck.'], {
        DATABASE_URL: url.href,
      });
      expect(code).toBe(1);
    } finally {
      await held.query('rollback');
      held.release();
    }
    const after = await api.pool.query('select id from api_keys where account_id = $1', [account.id]);
    expect(after.rows).toEqual(rows);
    expect([await statusWith(account.key), await logged('api_key.deleted')]).toEqual([200, []]);
  });

  it('says what is missing', async () => {
    expect(await refusal('revoke-all')).toMatch(/^--account is missing[\s\S]*--reason is missing/);
    expect(await refusal('revoke-all', '--account', account.id)).toMatch(/^--reason is missing: why/);
    expect(await refusal('revoke-all', '--account', account.id, '--reason', ' ')).toMatch(/^--reason is empty/);
    expect(await refusal('revoke-all', '--account', nobody, '--reason', 'x')).toBe(`There is no account ${nobody}.\n`);
    expect(await statusWith(account.key)).toBe(200);
  });
});

describe('npm run admin -- member', () => {
  it('invites, lists, sets and removes, as an owner could', async () => {
    const made = await done(
      'member',
      'invite',
      '--account',
      account.id,
      '--email',
      'Olga@Example.com',
      '--role',
      'owner',
    );
    expect(made).toMatchObject({ email: 'olga@example.com', role: 'owner', status: 'invited' });
    const olga = await account.person('olga@example.com');
    const bob = await account.person('bob@example.com', { role: 'viewer' });
    const { data } = await done('member', 'list', '--account', account.id);
    expect(data).toMatchObject([{ email: 'bob@example.com' }, { id: made.id, status: 'active', user_id: olga.userId }]);
    const bobId = data[0].id;
    expect(await done('member', 'set', '--id', bobId, '--role', 'owner')).toMatchObject({ id: bobId, role: 'owner' });
    expect(await done('member', 'remove', '--id', made.id)).toEqual({ id: made.id, deleted: true });
    expect((await olga.call('GET', '/api/v1/account')).status).toBe(401);
    expect((await bob.call('GET', '/api/v1/account/members')).body.total).toBe(1);
    const entries = await logged('member.invited', 'member.updated', 'member.removed', 'session.revoked');
    expect(entries.map(({ action }) => action)).toEqual([
      'member.invited',
      'member.updated',
      'member.removed',
      'session.revoked',
    ]);
    for (const entry of entries) expect(entry).toMatchObject(byOperator);
  });

  it('leaves the last owner', async () => {
    await account.person('ann@example.com');
    const { data } = await done('member', 'list', '--account', account.id);
    for (const args of [
      ['set', '--id', data[0].id, '--role', 'admin'],
      ['remove', '--id', data[0].id],
    ])
      expect(await refusal('member', ...args)).toMatch(/^ann@example\.com is the last owner of this account/);
  });

  it('names the option that is at fault', async () => {
    await done('member', 'invite', '--account', account.id, '--email', 'bob@example.com', '--role', 'viewer');
    const invite = (email: string, role: string) =>
      refusal('member', 'invite', '--account', account.id, '--email', email, '--role', role);
    expect(await invite('bob@example.com', 'admin')).toMatch(/^--email "bob@example\.com" belongs to this account/);
    expect(await invite('bob', 'admin')).toMatch(/^--email must be an e-mail address/);
    expect(await invite('carl@example.com', 'king')).toMatch(/^--role must be one of viewer, approver, admin, owner/);
    const unknown = 'mbr_00000000000000000000000000';
    expect(await refusal('member', 'remove', '--id', unknown)).toBe(`There is no member ${unknown}.\n`);
    expect(await refusal('member', 'set', '--id', unknown, '--role', 'viewer')).toBe(
      `There is no member ${unknown}.\n`,
    );
    expect(await refusal('member', 'set', '--id', 'x', '--role', 'viewer')).toMatch(
      /^--id is no identifier of a member/,
    );
    expect(await refusal('member', 'invite')).toMatch(/^--account is missing/);
    expect(await refusal('member', 'invite', '--account', nobody, '--email', 'a@example.com', '--role', 'viewer')).toBe(
      `There is no account ${nobody}.\n`,
    );
    expect(await refusal('member', 'show')).toMatch(/^Usage: npm run admin -- account create/);
  });
});
