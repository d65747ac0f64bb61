import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashApiKey, isApiKey } from '../../../shared/api-key.ts';
import { findApiKey } from '../../../shared/db/api-keys.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';

const admin = fileURLToPath(new URL('../../../api/admin.ts', import.meta.url));

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

async function run(args: string[], env: Record<string, string> = {}) {
  const environment = { PATH: process.env.PATH, PURSER_ENV: 'sandbox', DATABASE_URL: database.url, ...env };
  return promisify(execFile)(process.execPath, [admin, ...args], { env: environment }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

describe('npm run admin -- account create', () => {
  it('makes an account whose first key the api takes', async () => {
    const { code, stdout } = await run(['account', 'create', '--name', 'Acme', '--plan', 'growth']);
    expect(code).toBe(0);
    const made = JSON.parse(stdout) as Record<'account_id' | 'api_key', string>;
    expect(isApiKey(made.api_key, { environment: 'sandbox' })).toBe(true);
    expect(await findApiKey(pool, { hash: hashApiKey(made.api_key) })).toMatchObject({ account_id: made.account_id });
    const { rows } = await pool.query('select name, plan from accounts where id = $1', [made.account_id]);
    expect(rows).toEqual([{ name: 'Acme', plan: 'growth' }]);
  });

  it.each([
    [[], /Usage: npm run admin/],
    [['constructor'], /Usage: npm run admin/],
    [['account', 'create'], /--name is missing/],
    [['account', 'create', '--name', ' '], /--name is empty/],
    [['account', 'create', '--name', 'A', '--plan', 'gold'], /--plan must be starter, growth or enterprise/],
    [['account', 'create', '--nam', 'A'], /--nam/],
    [['account', 'delete', '--name', 'A'], /Usage: npm run admin/],
  ])('%j is answered with what would be right, without a stack', async (args, words) => {
    const { code, stderr } = await run(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(words);
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('says what is missing of the environment, and that the database is away', async () => {
    expect((await run(['account', 'create', '--name', 'A'], { PURSER_ENV: '' })).stderr).toMatch(
      /PURSER_ENV is missing/,
    );
    const away = { DATABASE_URL: 'postgres://purser_app@127.0.0.1:1/purser' };
    expect((await run(['account', 'create', '--name', 'A'], away)).stderr).toMatch(/ECONNREFUSED/);
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
      expect([code, JSON.parse(stdout)]).toEqual([0, { account_id: id, default_deny, owner_email }]);
      const { rows } = await pool.query('select default_deny, owner_email from accounts where id = $1', [id]);
      expect(rows).toEqual([{ default_deny, owner_email }]);
    }
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
    [['account', 'set', 'acct_00000000000000000000000000'], /acct_0/],
  ])('%j is answered with what would be right, without a stack', async (args, words) => {
    const { code, stderr } = await run(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(words);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});
