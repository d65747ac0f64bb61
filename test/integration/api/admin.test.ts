import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashApiKey, isApiKey } from '../../../shared/api-key.ts';
import { findApiKey } from '../../../shared/db/api-keys.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { byOperator, createAdmin, entriesOf } from './admin-calls.ts';

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const { run, runProcess } = createAdmin({ databaseUrl: () => database.url });

describe('npm run admin -- account create', () => {
  it('makes an account whose first key the api takes', async () => {
    const { code, stdout } = await runProcess(['account', 'create', '--name', 'Acme', '--plan', 'growth']);
    expect(code).toBe(0);
    const made = JSON.parse(stdout) as Record<'account_id' | 'api_key', string>;
    expect(isApiKey(made.api_key, { environment: 'sandbox' })).toBe(true);
    expect(await findApiKey(pool, { hash: hashApiKey(made.api_key) })).toMatchObject({ account_id: made.account_id });
    const { rows } = await pool.query('select name, plan from accounts where id = $1', [made.account_id]);
    expect(rows).toEqual([{ name: 'Acme', plan: 'growth' }]);
  });

  it('begins the audit log of the account, by the name of the operator and without the key', async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Logged']);
    const made = JSON.parse(stdout) as Record<'account_id' | 'api_key_id' | 'api_key', string>;
    const entries = await entriesOf(pool, made.account_id);
    const prefix = expect.stringMatching(/^purser_test_/);
    expect(entries).toMatchObject([
      { action: 'account.created', changes: { before: null, after: { name: 'Logged', default_deny: false } } },
      { action: 'api_key.created', changes: { before: null, after: { id: made.api_key_id, prefix } } },
    ]);
    for (const entry of entries) expect(entry).toMatchObject(byOperator);
    expect(JSON.stringify(entries)).not.toContain(made.api_key);
  });

  it('invites its owner, who is whom the built-in templates ask', async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Owned', '--owner', 'Olga@Example.com']);
    const { account_id: id } = JSON.parse(stdout) as { account_id: string };
    const { rows } = await pool.query(
      `select m.email, m.role, m.user_id, a.owner_email from members m join accounts a on a.id = m.account_id
       where a.id = $1`,
      [id],
    );
    const email = 'olga@example.com';
    expect(rows).toEqual([{ email, role: 'owner', user_id: null, owner_email: email }]);
    const entries = await entriesOf(pool, id);
    expect(entries.map(({ action }) => action)).toEqual(['account.created', 'member.invited', 'api_key.created']);
    expect(entries[1]).toMatchObject({ ...byOperator, changes: { before: null, after: { email, status: 'invited' } } });
  });

  it('notes who sets limits inside the signers, and takes nothing that is no public key', async () => {
    const ownerKey = 'o'.repeat(43);
    const { stdout } = await run(['account', 'create', '--name', 'Limited', '--owner-key', ownerKey]);
    const { account_id: id } = JSON.parse(stdout) as { account_id: string };
    const { rows } = await pool.query('select owner_key from accounts where id = $1', [id]);
    expect(rows).toEqual([{ owner_key: ownerKey }]);
    expect((await entriesOf(pool, id))[0]).toMatchObject({ changes: { after: { owner_key: ownerKey } } });
    for (const wrong of ['o'.repeat(42), `${ownerKey}=`, '']) {
      const { code, stderr } = await run(['account', 'create', '--name', 'None', '--owner-key', wrong]);
      expect([code, stderr]).toEqual([
        expect.toBeOneOf([1, 2]),
        expect.stringContaining('--owner-key must be the public half'),
      ]);
    }
  });

  it.each([
    [[], /Usage: npm run admin/],
    [['constructor'], /Usage: npm run admin/],
    [['account', 'create'], /--name is missing/],
    [['account', 'create', '--name', ' '], /--name is empty/],
    [['account', 'create', '--name', 'A', '--plan', 'gold'], /--plan must be one of starter, growth, enterprise/],
    [['account', 'create', '--name', 'a\u0007b'], /--name holds characters that are no text/],
    [['account', 'create', '--name', 'a'.repeat(129)], /--name has more than 128 characters/],
    [['account', 'create', '--name', 'A', '--owner', 'olga'], /--owner must be an e-mail address/],
    [['account', 'create', '--nam', 'A'], /--nam/],
    [['account', 'delete', '--name', 'A'], /Usage: npm run admin/],
  ])('%j is answered with what would be right', async (args, words) => {
    const { code, stderr } = await run(args);
    expect([code, stderr]).toEqual([expect.toBeOneOf([1, 2]), expect.stringMatching(words)]);
  });

  it('tells a mistake as it is, without a stack', async () => {
    for (const [args, words] of [
      [[], /^Usage: npm run admin/],
      [['account', 'create'], /^--name is missing: the name of the account\.\n$/],
      [
        ['plan', 'set', '--account', 'acct_00000000000000000000000000', '--plan', 'growth'],
        /^There is no account acct_0+\.\n$/,
      ],
    ] as const) {
      const { code, stdout, stderr } = await runProcess([...args]);
      expect([code, JSON.parse(stdout).error.message, stderr]).toEqual([
        expect.toBeOneOf([1, 2]),
        expect.any(String),
        expect.stringMatching(words),
      ]);
      expect(stderr).not.toMatch(/^\s+at /m);
    }
  });

  it('says what is missing of the environment, and that the database is away', async () => {
    expect((await runProcess(['account', 'create', '--name', 'A'], { PURSER_ENV: '' })).stderr).toMatch(
      /PURSER_ENV is missing/,
    );
    const away = { DATABASE_URL: 'postgres://purser_app@127.0.0.1:1/purser' };
    expect((await runProcess(['account', 'create', '--name', 'A'], away)).stderr).toMatch(/ECONNREFUSED/);
  });
});

describe('npm run admin -- account set', () => {
  let id: string;
  beforeAll(async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Set']);
    id = (JSON.parse(stdout) as { account_id: string }).account_id;
  });

  const set = (...args: string[]) => run(['account', 'set', '--id', id, ...args]);

  it('sets what is given, leaves the rest, and prints all of it', async () => {
    const steps = [
      [['--default-deny', 'on'], true, null],
      [['--owner', 'Alice@Example.com'], true, 'alice@example.com'],
      [['--default-deny', 'off'], false, 'alice@example.com'],
      [['--default-deny', 'on', '--owner', 'bob@example.com'], true, 'bob@example.com'],
    ] as const;
    for (const [args, default_deny, owner_email] of steps) {
      const { code, stdout } = await set(...args);
      const others = { policy_writes: 'any', ip_allowlist: [] };
      expect([code, JSON.parse(stdout)]).toEqual([0, { account_id: id, default_deny, owner_email, ...others }]);
      const { rows } = await pool.query('select default_deny, owner_email from accounts where id = $1', [id]);
      expect(rows).toEqual([{ default_deny, owner_email }]);
    }
    const settings = (default_deny: boolean, owner_email: string | null) => ({ id, default_deny, owner_email });
    const entries = (await entriesOf(pool, id)).filter(({ action }) => action === 'account.updated');
    expect(entries.map(({ changes }) => changes)).toMatchObject([
      { before: settings(false, null), after: settings(true, null) },
      { before: settings(true, null), after: settings(true, 'alice@example.com') },
      { before: settings(true, 'alice@example.com'), after: settings(false, 'alice@example.com') },
      { before: settings(false, 'alice@example.com'), after: settings(true, 'bob@example.com') },
    ]);
    for (const entry of entries) expect(entry).toMatchObject(byOperator);
  });

  it('sets who writes policies, and the networks from which it is used, and lifts both', async () => {
    const networks = ['192.0.2.0/24', '2001:db8::7/128'];
    const { stdout } = await set(
      '--policy-writes',
      'bearer',
      '--ip-allowlist',
      '192.0.2.0/24, 2001:db8::7,192.0.2.0/24',
    );
    expect(JSON.parse(stdout)).toMatchObject({ policy_writes: 'bearer', ip_allowlist: networks });
    const read = async () =>
      (await pool.query('select policy_writes, ip_allowlist from accounts where id = $1', [id])).rows[0];
    expect(await read()).toEqual({ policy_writes: 'bearer', ip_allowlist: networks });
    await set('--policy-writes', 'any', '--ip-allowlist', 'off');
    expect(await read()).toEqual({ policy_writes: 'any', ip_allowlist: [] });
  });

  it('has no allowlist on the plan starter, and says so', async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Small', '--plan', 'starter']);
    const { account_id } = JSON.parse(stdout) as { account_id: string };
    const { code, stderr } = await run(['account', 'set', '--id', account_id, '--ip-allowlist', '192.0.2.7']);
    expect([code, stderr]).toEqual([
      1,
      '--ip-allowlist is for the plans growth and enterprise; this account has starter.\n',
    ]);
  });

  it('changes this account only', async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Other']);
    await set('--default-deny', 'on', '--owner', 'carol@example.com');
    const { rows } = await pool.query('select default_deny, owner_email from accounts where id = $1', [
      (JSON.parse(stdout) as { account_id: string }).account_id,
    ]);
    expect(rows).toEqual([{ default_deny: false, owner_email: null }]);
  });

  it.each([
    [['account', 'set'], /--id is missing/],
    [['account', 'set', '--id', 'Acme', '--default-deny', 'on'], /--id is no identifier of an account/],
    [['account', 'set', '--id', 'acct_00000000000000000000000000'], /nothing to set: give --default-deny, --owner/],
    [
      ['account', 'set', '--id', 'acct_00000000000000000000000000', '--default-deny', 'on'],
      /There is no account acct_00000000000000000000000000/,
    ],
    [
      ['account', 'set', '--id', 'acct_00000000000000000000000000', '--default-deny', 'yes'],
      /--default-deny must be on or off/,
    ],
    [['account', 'set', '--id', 'acct_00000000000000000000000000', '--owner', 'alice'], /--owner must be an e-mail/],
    [['account', 'set', '--id', 'acct_00000000000000000000000000', '--name', 'A'], /--name/],
    [
      ['account', 'set', '--id', 'acct_00000000000000000000000000', '--policy-writes', 'on'],
      /--policy-writes must be any or bearer/,
    ],
    [
      ['account', 'set', '--id', 'acct_00000000000000000000000000', '--ip-allowlist', '10.1.2.3/8,x'],
      /--ip-allowlist: "10\.1\.2\.3\/8" has bits set.*10\.0\.0\.0\/8 is the network[\s\S]*--ip-allowlist: "x" is no network/,
    ],
    [['account', 'set', 'acct_00000000000000000000000000'], /acct_0/],
  ])('%j is answered with what would be right', async (args, words) => {
    const { code, stderr } = await run(args);
    expect([code, stderr]).toEqual([expect.toBeOneOf([1, 2]), expect.stringMatching(words)]);
  });
});

describe('npm run admin -- plan set', () => {
  let id: string;
  beforeAll(async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Plans', '--plan', 'starter']);
    id = (JSON.parse(stdout) as { account_id: string }).account_id;
  });

  const set = async (...args: string[]) => {
    const { code, stdout } = await run(['plan', 'set', '--account', id, ...args]);
    expect(code).toBe(0);
    return JSON.parse(stdout);
  };
  const limits = (perMinute: number | null, perDay: number | null, concurrent: number | null) => ({
    requests_per_minute: perMinute,
    requests_per_day: perDay,
    concurrent_requests: concurrent,
  });

  it('puts an account on a plan, with limits of its own on the plan enterprise', async () => {
    const steps = [
      [['--plan', 'growth'], 'growth', limits(300, 100_000, 25)],
      [['--plan', 'enterprise'], 'enterprise', limits(null, null, null)],
      [['--plan', 'enterprise', '--per-minute', '900', '--concurrent', '7'], 'enterprise', limits(900, null, 7)],
      [['--plan', 'enterprise', '--per-minute', 'none', '--per-day', '5'], 'enterprise', limits(null, 5, 7)],
      [['--plan', 'starter'], 'starter', limits(60, 10_000, 5)],
      [['--plan', 'enterprise'], 'enterprise', limits(null, null, null)],
    ] as const;
    for (const [args, plan, wanted] of steps)
      expect(await set(...args)).toEqual({ account_id: id, plan, limits: wanted });
    const changed = (await entriesOf(pool, id)).filter(({ action }) => action === 'account.plan_changed');
    expect(changed).toHaveLength(steps.length);
    for (const [index, entry] of changed.entries())
      expect(entry).toMatchObject({
        ...byOperator,
        changes: { after: { plan: steps[index]![1], limits: steps[index]![2] } },
      });
    expect(changed[0]!.changes.before).toMatchObject({ plan: 'starter', limits: limits(60, 10_000, 5) });
  });

  const account = ['--account', 'acct_00000000000000000000000000'];
  it.each([
    [[], /--account is missing[\s\S]*--plan must be one of/],
    [[...account], /--plan must be one of starter, growth, enterprise/],
    [[...account, '--plan', 'gold'], /--plan must be one of/],
    [[...account, '--plan', 'growth'], /There is no account acct_0/],
    [[...account, '--plan', 'growth', '--per-day', '7'], /--per-day is for the plan enterprise only/],
    [[...account, '--plan', 'enterprise', '--per-minute', '0'], /--per-minute must be a whole number from 1/],
    [[...account, '--plan', 'enterprise', '--per-day', '1e3'], /--per-day must be a whole number from 1/],
    [[...account, '--plan', 'enterprise', '--concurrent', '99999999999'], /--concurrent must be a whole number/],
  ])('%j is answered with what would be right', async (args, words) => {
    const { code, stderr } = await run(['plan', 'set', ...args]);
    expect([code, stderr]).toEqual([expect.toBeOneOf([1, 2]), expect.stringMatching(words)]);
  });
});
