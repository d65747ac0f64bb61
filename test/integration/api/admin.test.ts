import { execFile } from 'node:child_process';
import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashApiKey, isApiKey } from '../../../shared/api-key.ts';
import { findApiKey } from '../../../shared/db/api-keys.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { connectTestTemporal, type TestTemporal } from '../../support/temporal.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { askPeople, expireIn, tracesOf } from './questions.ts';

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

const byOperator = { actor_type: 'system', actor_id: 'operator', actor_name: userInfo().username, result: 'success' };

async function entriesOf(accountId: string) {
  const { rows } = await pool.query('select * from audit_inbox where account_id = $1 order by created_at, id', [
    accountId,
  ]);
  return rows;
}

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

  it('begins the audit log of the account, by the name of the operator and without the key', async () => {
    const { stdout } = await run(['account', 'create', '--name', 'Logged']);
    const made = JSON.parse(stdout) as Record<'account_id' | 'api_key_id' | 'api_key', string>;
    const entries = await entriesOf(made.account_id);
    const prefix = expect.stringMatching(/^purser_test_/);
    expect(entries).toMatchObject([
      { action: 'account.created', changes: { before: null, after: { name: 'Logged', default_deny: false } } },
      { action: 'api_key.created', changes: { before: null, after: { id: made.api_key_id, prefix } } },
    ]);
    for (const entry of entries) expect(entry).toMatchObject(byOperator);
    expect(JSON.stringify(entries)).not.toContain(made.api_key);
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
    const settings = (default_deny: boolean, owner_email: string | null) => ({ id, default_deny, owner_email });
    const entries = (await entriesOf(id)).filter(({ action }) => action === 'account.updated');
    expect(entries.map(({ changes }) => changes)).toEqual([
      { before: settings(false, null), after: settings(true, null) },
      { before: settings(true, null), after: settings(true, 'alice@example.com') },
      { before: settings(true, 'alice@example.com'), after: settings(false, 'alice@example.com') },
      { before: settings(false, 'alice@example.com'), after: settings(true, 'bob@example.com') },
    ]);
    for (const entry of entries) expect(entry).toMatchObject(byOperator);
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

describe('npm run admin -- approval approve|reject', () => {
  const ann = 'ann@example.com';
  const bob = 'bob@example.com';
  let api: TestApi;
  let account: TestAccount;
  let temporal: TestTemporal;
  beforeAll(async () => {
    temporal = await connectTestTemporal();
    api = await startTestApi({ temporalAddress: temporal.address });
    account = await api.account();
  });
  afterAll(async () => {
    await api?.stop();
    await temporal?.close();
  });

  const decide = (verb: string, args: string[], env: Record<string, string> = {}) =>
    run(['approval', verb, ...args], { DATABASE_URL: api.databaseUrl, ...env });

  it.each([
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ])('%s decides for the approver, by the name of the operator', async (verb, status) => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob] }]);
    const args = [asked.approvalId, '--as', 'Ann@Example.com', '--reason', 'Ann is ill; told us by telephone.'];
    const { code, stdout, stderr } = await decide(verb, args);
    expect([code, stderr]).toEqual([0, '']);
    const printed = JSON.parse(stdout);
    expect((await account.call('GET', `/api/v1/approvals/${asked.approvalId}`)).body).toEqual(printed);
    expect(printed).toMatchObject({ status, decisions: [{ approver: ann, decision: status }] });
    const { approval, events, audits } = await tracesOf(api, asked);
    expect(events).toMatchObject([{ type: `approval.${status}`, xid: approval.xid }]);
    expect(audits).toEqual([
      {
        action: `approval.${status}`,
        actor_type: 'system',
        actor_id: 'operator',
        metadata: {
          ...{ transaction_id: asked.transactionId, ledger_id: null },
          status,
          approver: ann,
          note: 'Ann is ill; told us by telephone.',
          via: 'operator',
          operator: userInfo().username,
        },
        xid: approval.xid,
      },
    ]);
  });

  it('tells the payment at once where Temporal is known', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const taskQueue = `nobody-${asked.transactionId}`;
    const handle = await temporal.client.workflow.start('any', { taskQueue, workflowId: asked.transactionId });
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    const { code, stderr } = await decide('approve', args, { TEMPORAL_ADDRESS: temporal.address });
    expect([code, stderr]).toEqual([0, '']);
    const { events } = await handle.fetchHistory();
    const signals = events!.map((event) => event.workflowExecutionSignaledEventAttributes?.signalName);
    expect(signals.filter((name) => name)).toEqual(['approve']);
    await handle.terminate();
  });

  it('decides all the same while Temporal is away, and says a word about it', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const startMs = performance.now();
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    const { code, stdout, stderr } = await decide('reject', args, { TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect([code, JSON.parse(stdout).status, stderr]).toEqual([
      0,
      'rejected',
      'Temporal was not told; the payment finds the decision by itself within 15 seconds.\n',
    ]);
    expect(performance.now() - startMs).toBeLessThan(20_000);
  });

  it('is refused where it is not allowed: in production unless configured, in sandbox if configured', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    for (const env of [{ PURSER_ENV: 'production' }, { PURSER_OPERATOR_APPROVALS: 'off' }]) {
      const { code, stderr } = await decide('approve', args, env);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^Operators decide nothing in this .* PURSER_OPERATOR_APPROVALS=on allows it\.\n$/),
      ]);
    }
    expect(await tracesOf(api, asked)).toMatchObject({ approval: { status: 'pending' }, audits: [] });
    const allowed = { PURSER_ENV: 'production', PURSER_OPERATOR_APPROVALS: 'on' };
    expect((await decide('approve', args, allowed)).code).toBe(0);
  });

  it('is refused like anybody: not asked, decided, over, unknown; each in a sentence', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob], required: 2 }]);
    const late = await askPeople(api, account, [{ approvers: [ann] }]);
    await expireIn(api, { approvalId: late.approvalId, ms: -1 });
    const as = (id: string, email: string) => decide('approve', [id, '--as', email, '--reason', 'Told us.']);
    expect((await as(asked.approvalId, ann)).code).toBe(0);
    for (const [id, email, words] of [
      [asked.approvalId, 'eve@example.com', /^eve@example\.com is not asked to approve apr_/],
      [asked.approvalId, ann, /^ann@example\.com has approved apr_.* already; others have yet to decide\.$/],
      [late.approvalId, ann, /^Approval apr_.* expired at .*Z: nothing can be decided any more\.$/],
      ['apr_00000000000000000000000000', ann, /^There is no approval apr_00000000000000000000000000\.$/],
    ] as const) {
      const { code, stdout, stderr } = await as(id, email);
      expect([code, stdout, stderr.trim()]).toEqual([1, '', expect.stringMatching(words)]);
    }
  });

  const id = 'apr_00000000000000000000000000';
  it.each([
    [['approve'], /ID is missing/],
    [['approve', 'tx_1', '--as', ann, '--reason', 'x'], /ID is no identifier of an approval/],
    [['approve', id, '--reason', 'x'], /--as is missing/],
    [['approve', id, '--as', 'ann', '--reason', 'x'], /--as must be an e-mail address/],
    [['reject', id, '--as', ann], /--reason is missing/],
    [['reject', id, '--as', ann, '--reason', ' '], /--reason is empty/],
    [['reject', id, '--as', ann, '--reason', 'x'.repeat(1025)], /--reason has more than 1024 characters/],
    [['reject', id, '--as', ann, '--reason', 'a\u0007b'], /--reason holds characters that are no text/],
    [['reject', id, id, '--as', ann, '--reason', 'x'], /Usage: npm run admin/],
    [['cancel', id, '--as', ann, '--reason', 'x'], /Usage: npm run admin/],
    [['reject', id, '--by', ann], /--by/],
  ])('approval %j is answered with what would be right, without a stack', async (args, words) => {
    const { code, stderr } = await run(['approval', ...args]);
    expect(code).toBe(1);
    expect(stderr).toMatch(words);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});
