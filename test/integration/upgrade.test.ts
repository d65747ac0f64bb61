import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createAwaitApproval } from '../../activities/await-approval.ts';
import { createNoteKeyRefresh } from '../../activities/note-key-refresh.ts';
import { createNoteSignerLook } from '../../activities/note-signer-look.ts';
import { createFail, createSettle } from '../../activities/settle.ts';
import { decideApprovals } from '../../api/operations/decide-approval.ts';
import { hashApiKey, makeApiKey } from '../../shared/api-key.ts';
import { claimSpareKey, findAccountKey, insertAccountKey } from '../../shared/db/account-keys.ts';
import { createAccount, findAccount } from '../../shared/db/accounts.ts';
import { findApiKey } from '../../shared/db/api-keys.ts';
import { listApprovals } from '../../shared/db/approvals.ts';
import { findAttempts } from '../../shared/db/attempts.ts';
import { bySystem } from '../../shared/db/audit.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { countEvents, listEvents } from '../../shared/db/events.ts';
import { foldListCounts } from '../../shared/db/list-counts.ts';
import { acceptInvitations } from '../../shared/db/members.ts';
import { migrate } from '../../shared/db/migrate.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { dropOldestPartition, findMisplacedRows } from '../../shared/db/partitions.ts';
import { createPool, inTransaction, type Pool } from '../../shared/db/pool.ts';
import { findSlot } from '../../shared/db/slots.ts';
import { countTransactions, failTransaction, getTransaction, listTransactions } from '../../shared/db/transactions.ts';
import { readUsage } from '../../shared/db/usage.ts';
import { upsertUser } from '../../shared/db/users.ts';
import { noteWaiting, wishForDueSpeed } from '../../shared/db/waiting-attempts.ts';
import { isId, newId } from '../../shared/ids.ts';
import { createLogger } from '../../shared/log.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { renderApproval } from '../../shared/render-approval.ts';
import { renderEvent } from '../../shared/render-event.ts';
import { cancelPayment } from '../../shared/replace-payment.ts';
import { findMiscounts } from '../support/list-counts.ts';
import { monthStart } from '../support/months.ts';
import { insertTestAgent, insertTestPayment, type TestAgent } from '../support/rows.ts';
import { insertTestLedger, insertTestSession } from '../support/x402-ledger.ts';

const dir = fileURLToPath(new URL('../../shared/db/migrations', import.meta.url));
const dayMs = 86_400_000;

function urlOf(base: string, database: string): string {
  const url = new URL(base);
  url.pathname = `/${database}`;
  return url.href;
}
async function asSuperuser(sql: string, database?: string): Promise<void> {
  const { superuserUrl } = inject('stack');
  const client = new pg.Client({ connectionString: database ? urlOf(superuserUrl, database) : superuserUrl });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
/** A database with the schema of an earlier version. */
async function createOldDatabase({ name, migrations: count }: { name: string; migrations: number }): Promise<void> {
  await asSuperuser(`create database ${name}`);
  await asSuperuser(readFileSync(new URL('../../deploy/roles.sql', import.meta.url), 'utf8'), name);
  const databaseUrl = urlOf(inject('stack').ownerUrl, name);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  await runner({ databaseUrl, dir, direction: 'up', migrationsTable: 'pgmigrations', count, logger });
}

/** A database as the first version left it, with payments in every state, brought up to date. */
describe('F50 an installation of the first version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  const [account, agent, wallet, key] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
  const ids = {
    open: newId('tx'),
    confirmed: newId('tx'),
    denied: newId('tx'),
    reverted: newId('tx'),
    fresh: newId('tx'),
  };
  let pool: Pool;

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 1 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    await insertOldRows();
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0002_policies');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  async function insertOldRows(): Promise<void> {
    await pool.query(`insert into accounts (id, name, plan) values ($1, 'Old', 'starter')`, [account]);
    await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
      key,
      account,
    ]);
    await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Old', 'eip155:31337')`, [
      agent,
      account,
    ]);
    await pool.query(
      `insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/0', '0x')`,
      [wallet, agent, key],
    );
    const allow = { outcome: 'allow', violations: [] };
    const deny = { outcome: 'deny', violations: [] };
    const rows: [string, string, string, string | null, object | null, number][] = [
      [ids.open, 'pending', 'broadcast', null, allow, 1_500_000],
      [ids.confirmed, 'confirmed', 'confirmed', null, allow, 20_000_000],
      [ids.denied, 'failed', 'failed', 'policy_violation', deny, 300_000_000],
      [ids.reverted, 'failed', 'failed', 'reverted', allow, 4_000_000_000],
      [ids.fresh, 'pending', 'created', null, null, 50_000_000_000],
    ];
    for (const [id, status, detail, code, decision, amount] of rows)
      await pool.query(
        `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
           from_address, to_address, status, status_detail, failure_code, decision_id, decision)
         values ($1, $2, $3, $4, 'eip155:31337', 'USDC', '0xc', 6, $5, '0xa', '0xb', $6, $7, $8, 'dec_1', $9)`,
        [id, account, agent, wallet, amount, status, detail, code, decision && JSON.stringify(decision)],
      );
    const payload = { kind: 'evm-transaction', transaction: { gas: '60000', maxFeePerGasWei: '2000000000' } };
    for (const [nonce, id] of [ids.open, ids.confirmed].entries())
      await pool.query(
        `insert into slots (wallet_id, chain, nonce, transaction_id, payload) values ($1, 'eip155:31337', $2, $3, $4)`,
        [wallet, nonce, id, JSON.stringify(payload)],
      );
    await pool.query('update slots set closed_at = now() where transaction_id = $1', [ids.confirmed]);
  }

  it('counts what it has sent and is sending in its limits', async () => {
    const usage = await readUsage(pool, { agentId: agent, windowsMs: [dayMs], now: new Date() });
    expect(usage).toMatchObject([{ token: 'USDC', atoms: 21_500_000n * 10n ** 30n, count: 2 }]);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('holds the money of what is in flight, with its highest fee', async () => {
    const { rows } = await pool.query('select owner_id, asset, amount_minor from holds order by asset');
    expect(rows).toEqual([
      { owner_id: ids.open, asset: '0xc', amount_minor: '1500000' },
      { owner_id: ids.open, asset: 'native', amount_minor: '120000000000000' },
    ]);
  });

  it('lets the application add events and audit entries, and change none', async () => {
    const insert = (table: string) => `insert into ${table} select * from ${table} where false`;
    for (const table of ['events', 'audit_logs']) {
      await pool.query(insert(table));
      await expect(pool.query(`delete from ${table}`)).rejects.toThrow(/permission denied/);
      await expect(pool.query(`update ${table} set id = id`)).rejects.toThrow(/permission denied/);
    }
  });
});

/** What the second version asked is answered in this one. */
describe('F50 an installation of the second version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  let pool: Pool;
  let agent: TestAgent;
  let waiting: string;

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 2 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    agent = await insertTestAgent(pool);
    waiting = await insertTestPayment(pool, agent);
    await pool.query(`update transactions set status_detail = 'awaiting_approval' where id = $1`, [waiting]);
    await pool.query(
      `insert into approvals (id, account_id, agent_id, transaction_id, policy_id, threshold, required_approvals,
                              approvers, expires_at)
       values ($1, $2, $3, $4, $5, '0', 1, '{a@example.com}', now() + interval '1 hour')`,
      [newId('apr'), agent.accountId, agent.agentId, waiting, newId('pol')],
    );
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0003_approvals');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  it('lets people answer what was asked before', async () => {
    const [approval] = await listApprovals(pool, {
      accountId: agent.accountId,
      status: 'pending',
      limit: 10,
      offset: 0,
    });
    expect(approval).toMatchObject({ decisions: [], notices: [], amount_minor: '1000000' });
    const answer = { agentId: agent.agentId, approver: 'a@example.com', decision: 'approved' as const, note: null };
    const result = await decideApprovals(
      { pool, tellAnswer: async () => {} },
      { answers: [{ ...answer, approvalId: approval!.id }], door: { via: 'bearer', acting: bySystem } },
    );
    expect(result).toMatchObject({ approvals: [{ status: 'approved' }] });
  });
});

/** What the third version has sent is watched, sped up and cancelled in this one. */
describe('F50 an installation of the third version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  let pool: Pool;
  let sent: string;
  let signing: string;

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 3 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    const agent = await insertTestAgent(pool);
    sent = await insertTestPayment(pool, agent);
    signing = await insertTestPayment(pool, agent);
    const transaction = { gas: '60000', maxFeePerGasWei: '2000000000', maxPriorityFeePerGasWei: '1' };
    for (const [nonce, id] of [sent, signing].entries())
      await pool.query(
        `insert into slots (wallet_id, chain, nonce, transaction_id, payload) values ($1, 'eip155:31337', $2, $3, $4)`,
        [agent.walletId, nonce, id, JSON.stringify({ kind: 'evm-transaction', transaction })],
      );
    await pool.query(
      `insert into attempts (chain, hash, transaction_id, raw, sent_at) values ('eip155:31337', '0xabc', $1, '0x', now())`,
      [sent],
    );
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0004_never-twice');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  it('takes what was sent for the payment itself, and replaces nothing that nobody wants replaced', async () => {
    expect(await findAttempts(pool, { transactionId: sent })).toMatchObject([{ purpose: 'payment', version: 1 }]);
    expect(await findSlot(pool, { transactionId: sent })).toMatchObject({
      purpose: 'payment',
      version: 1,
      wanted: null,
    });
    expect(await createSettle({ pool })(sent)).toEqual({ state: 'open' });
    expect(await createSettle({ pool })(signing)).toEqual({ state: 'open' });
  });

  it('has it offer more, and cancels it on demand', async () => {
    const chain = 'eip155:31337';
    await noteWaiting(pool, { chain, headNumber: 10 });
    expect(await wishForDueSpeed(pool, { chain, headNumber: 20, afterBlocks: 10 })).toEqual([sent]);
    const row = (await getTransaction(pool, { id: sent }))!;
    expect(await inTransaction(pool, (db) => cancelPayment(db, row))).toBeUndefined();
    expect(await findSlot(pool, { transactionId: sent })).toMatchObject({ wanted: 'cancel', end_code: 'cancelled' });
    expect(await createSettle({ pool })(sent)).toEqual({ state: 'open', replace: true });
  });
});

/** What the fourth version has reserved and asked is counted and answered in this one, beside x402 sessions. */
describe('F50 an installation of the fourth version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  const atoms = 10n ** 36n;
  let pool: Pool;
  let agent: TestAgent;
  let waiting: string;
  let approvalId: string;

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 4 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    agent = await insertTestAgent(pool);
    waiting = await insertTestPayment(pool, agent);
    await pool.query(
      `update transactions set status_detail = 'awaiting_approval', decision_id = 'dec_1',
              decision = '{"outcome": "allow", "violations": [], "approvals": []}' where id = $1`,
      [waiting],
    );
    await pool.query(
      `insert into reservations (transaction_id, account_id, agent_id, token, atoms, instant)
       values ($1, $2, $3, 'USDC', $4, now())`,
      [waiting, agent.accountId, agent.agentId, atoms.toString()],
    );
    await pool.query(`insert into usage_open (agent_id, token, atoms, count) values ($1, 'USDC', $2, 1)`, [
      agent.agentId,
      atoms.toString(),
    ]);
    approvalId = newId('apr');
    await pool.query(
      `insert into approvals (id, account_id, agent_id, transaction_id, policy_id, threshold, required_approvals,
                              approvers, expires_at)
       values ($1, $2, $3, $4, $5, '0', 1, '{a@example.com}', now() + interval '1 hour')`,
      [approvalId, agent.accountId, agent.agentId, waiting, newId('pol')],
    );
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0005_x402');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });
  const usage = () => readUsage(pool, { agentId: agent.agentId, windowsMs: [dayMs], now: new Date() });

  it('counts in its limits what is reserved, together with what is paid out of sessions', async () => {
    expect(await usage()).toMatchObject([{ token: 'USDC', atoms, count: 1 }]);
    const session = await insertTestSession(pool, agent);
    const { status } = await insertTestLedger(pool, session);
    expect(status).toBe('pending');
    expect(await usage()).toMatchObject([{ token: 'USDC', atoms: atoms + atoms / 100n, count: 2 }]);
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('shows and lets people answer what was asked, and frees what was reserved', async () => {
    const [approval] = await listApprovals(pool, { accountId: agent.accountId, limit: 10, offset: 0 });
    expect(renderApproval(approval!)).toMatchObject({ transaction_id: waiting, ledger_id: null, target_url: null });
    const answer = { agentId: agent.agentId, approver: 'a@example.com', decision: 'approved' as const, note: null };
    const result = await decideApprovals(
      { pool, tellAnswer: async () => {} },
      { answers: [{ ...answer, approvalId }], door: { via: 'bearer', acting: bySystem } },
    );
    expect(result).toMatchObject({ approvals: [{ status: 'approved' }] });
    expect(await createAwaitApproval({ pool, clock: databaseClock })(waiting)).toEqual({ outcome: 'go' });
    expect(await createFail({ pool })(waiting, 'dropped', 'over')).toMatchObject({ status: 'failed' });
    expect(await usage()).toMatchObject([{ count: 1 }]);
  });
});

/** What the fifth version has told, logged and paid is listed, counted and kept by month in this one. */
describe('F50 an installation of the fifth version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  const months = [-15, -2, -2, 0];
  let pool: Pool;
  let agent: TestAgent;
  let other: TestAgent;
  let eventIds: string[];
  let auditIds: string[];

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 5 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    agent = await insertTestAgent(pool);
    other = await insertTestAgent(pool);
    await insertOldPayments();
    eventIds = await insertOldEvents();
    auditIds = await insertOldAuditRows();
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0006_webhooks-events-audit');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  /** One in every state, each in a month of its own. */
  async function insertOldPayments(): Promise<void> {
    const states = [
      ['pending', 'created', null],
      ['pending', 'policy_check', null],
      ['pending', 'awaiting_approval', null],
      ['pending', 'signing', null],
      ['pending', 'broadcast', null],
      ['confirmed', 'confirmed', null],
      ['failed', 'failed', 'policy_violation'],
      ['failed', 'failed', 'reverted'],
    ];
    for (const [index, [status, detail, code]] of states.entries()) {
      const id = await insertTestPayment(pool, agent);
      await pool.query(
        `update transactions set status = $2, status_detail = $3, failure_code = $4, created_at = $5 where id = $1`,
        [id, status, detail, code, monthStart(-index)],
      );
    }
    await insertTestPayment(pool, other);
  }

  async function insertOldEvents(): Promise<string[]> {
    const ids: string[] = [];
    for (const offset of months) {
      const id = newId('evt');
      await pool.query(
        `insert into events (id, account_id, type, resource_type, resource_id, agent_id, data, created_at)
         values ($1, $2, 'approval.requested', 'approval', 'apr_1', $3, '{"b": 1.50, "a": [null]}', $4)`,
        [id, agent.accountId, agent.agentId, monthStart(offset)],
      );
      ids.push(id);
    }
    return ids;
  }

  /** Written in another order than that of their times. */
  async function insertOldAuditRows(): Promise<string[]> {
    const rows = [...months, -1].map((offset) => ({ id: newId('aud'), at: monthStart(offset) }));
    for (const { id, at } of rows.toReversed())
      await pool.query(
        `insert into audit_logs (id, account_id, action, actor_type, resource_type, resource_id, agent_id, result,
                                 metadata, created_at)
         values ($1, $2, 'transaction.evaluated', 'system', 'transaction', 'tx_1', $3, 'denied', '{"a": 1}', $4)`,
        [id, agent.accountId, agent.agentId, at],
      );
    return rows.toSorted((a, b) => a.at.getTime() - b.at.getTime() || (a.id < b.id ? -1 : 1)).map(({ id }) => id);
  }

  it('lists its events, newest first, each in its month', async () => {
    const { accountId } = agent;
    const listed = await listEvents(pool, { accountId, limit: 10, offset: 0 });
    expect(listed.map(({ id }) => id)).toEqual([3, 2, 1, 0].map((index) => eventIds[index]));
    expect(renderEvent(listed[0]!, { livemode: false })).toMatchObject({
      type: 'approval.requested',
      created_at: monthStart(0).toISOString(),
      data: { b: 1.5, a: [null] },
    });
    expect(await countEvents(pool, { accountId, type: 'approval.requested' })).toBe(4);
    expect(await findMisplacedRows(pool)).toEqual([]);
  });

  it('counts its payments in every state, and goes on counting', async () => {
    const { accountId, agentId } = agent;
    const count = (filter: { agentId?: string; status?: 'pending' | 'confirmed' | 'failed' } = {}) =>
      countTransactions(pool, { accountId, ...filter });
    expect(await count()).toBe(8);
    expect(await count({ agentId, status: 'pending' })).toBe(5);
    expect(await count({ status: 'confirmed' })).toBe(1);
    expect(await count({ status: 'failed' })).toBe(2);
    expect(await findMiscounts(pool)).toEqual([]);
    const [newest] = await listTransactions(pool, { accountId, status: 'pending', limit: 1, offset: 0 });
    await failTransaction(pool, { id: newest!.id, code: 'dropped', message: 'over' });
    expect(await count({ agentId, status: 'failed' })).toBe(3);
    while (await foldListCounts(pool)) {}
    expect(await findMiscounts(pool)).toEqual([]);
  });

  it('has its audit entries wait for their place in the order of their times', async () => {
    const { rows } = await pool.query('select id from audit_inbox order by account_id, created_at, id');
    expect(rows.map(({ id }) => id)).toEqual(auditIds);
    expect((await pool.query('select from audit_logs')).rowCount).toBe(0);
  });

  it('has a month for each of those entries, and loses those that are older than it keeps', async () => {
    const owner = createPool({ url: urlOf(inject('stack').ownerUrl, name), application: 'test' });
    const parts = async (table: string) =>
      (await owner.query('select from pg_inherits where inhparent = $1::regclass', [table])).rowCount;
    try {
      // From fifteen months ago to three months ahead, and the one for what has no month.
      expect(await parts('events')).toBe(20);
      expect(await parts('audit_logs')).toBe(20);
      expect(await parts('webhook_deliveries')).toBe(5);
      while (await dropOldestPartition(pool, { table: 'events', keepMonths: 13 })) {}
      expect(await parts('events')).toBe(18);
    } finally {
      await owner.end();
    }
    expect(await countEvents(pool, { accountId: agent.accountId })).toBe(3);
  });
});

/** Whoever used the sixth version goes on with the same key, and may sign in as the owner that was named. */
describe('F50 an installation of the sixth version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  const { key, prefix, hash } = makeApiKey({ environment: 'sandbox' });
  const [owned, ownerless] = [newId('acct'), newId('acct')];
  let pool: Pool;

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 6 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    await pool.query(
      `insert into accounts (id, name, plan, owner_email)
       values ($1, 'Owned', 'growth', 'ann@example.com'), ($2, 'Ownerless', 'starter', null)`,
      [owned, ownerless],
    );
    await pool.query(`insert into api_keys (id, account_id, name, prefix, hash) values ($1, $2, 'old', $3, $4)`, [
      newId('key'),
      owned,
      prefix,
      hash,
    ]);
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0007_who-may');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  it('takes its keys, which may all they might before', async () => {
    expect(await findApiKey(pool, { hash: hashApiKey(key) })).toMatchObject({
      ...{ account_id: owned, name: 'old', scopes: null, agent_id: null, is_expired: false },
      ...{ plan: 'growth', ip_allowlist: [], policy_writes: 'any', requests_per_minute: null },
    });
  });

  it('is of the environment that its keys are for', async () => {
    const { rows } = await pool.query('select environment from installation');
    expect(rows).toEqual([{ environment: 'sandbox' }]);
  });

  it('lets in whom it knew as an owner, and nobody else', async () => {
    const signIn = async (email: string) => {
      const { id: userId } = await upsertUser(pool, {
        issuer: 'https://provider.test',
        subject: email,
        name: null,
        email,
      });
      return acceptInvitations(pool, { userId, email });
    };
    const joined = await signIn('Ann@Example.com');
    expect(joined).toMatchObject([{ account_id: owned, role: 'owner', email: 'ann@example.com' }]);
    expect(isId('mbr', joined[0]!.id)).toBe(true);
    expect(await signIn('bob@example.com')).toEqual([]);
  });
});

/** Accounts of the ninth version have nobody who sets limits inside the signers, and keep their keys. */
describe('F50 an installation of the ninth version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  let pool: Pool;
  const accountId = newId('acct');

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 9 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    await pool.query(`insert into accounts (id, name, plan) values ($1, 'Old', 'growth')`, [accountId]);
    await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
      newId('ckey'),
      accountId,
    ]);
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0010_owner-keys');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  it('shows its accounts without an owner’s key, and makes new ones with one', async () => {
    expect(renderAccount((await findAccount(pool, { id: accountId }))!)).toMatchObject({ owner_key: null });
    const ownerKey = 'k'.repeat(43);
    const id = await createAccount(pool, { name: 'New', plan: 'growth', ownerKey });
    expect(renderAccount((await findAccount(pool, { id }))!)).toMatchObject({ owner_key: ownerKey });
    const wrong = createAccount(pool, { name: 'New', plan: 'growth', ownerKey: 'short' });
    await expect(wrong).rejects.toThrow(/accounts_owner_key_is_a_key/);
  });

  it('gives its spare keys to accounts that ask for no owner’s key', async () => {
    expect(await findAccountKey(pool, { accountId })).toMatchObject({ account_id: accountId });
    await insertAccountKey(pool, { id: newId('ckey'), accountId: null, publicKey: '0x', chainCode: '0x' });
    const limited = await createAccount(pool, { name: 'New', plan: 'growth', ownerKey: 'k'.repeat(43) });
    expect(await claimSpareKey(pool, { accountId: limited })).toBeUndefined();
    const plain = await createAccount(pool, { name: 'New', plan: 'growth' });
    expect(await claimSpareKey(pool, { accountId: plain })).toMatchObject({ account_id: plain });
  });
});

/** Keys of the tenth version have the shares that they were made with, and nothing was ever found wrong with them. */
describe('F50 an installation of the tenth version', () => {
  const name = `upgrade_${randomBytes(8).toString('hex')}`;
  let pool: Pool;
  const [accountId, keyId] = [newId('acct'), newId('ckey')];

  beforeAll(async () => {
    const { ownerUrl, appUrl } = inject('stack');
    await createOldDatabase({ name, migrations: 10 });
    pool = createPool({ url: urlOf(appUrl, name), application: 'test' });
    await pool.query(`insert into accounts (id, name, plan) values ($1, 'Old', 'growth')`, [accountId]);
    await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
      ...[keyId, accountId],
    ]);
    expect(await migrate({ databaseUrl: urlOf(ownerUrl, name) })).toContain('0011_signer-alerts');
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(`drop database if exists ${name} with (force)`);
  });

  it('counts on from their first shares, and tells what is found of them', async () => {
    await createNoteKeyRefresh({ pool })({ keyId, epoch: 2 });
    const finding = { kind: 'signer_banned', party: 1, keyId, detail: 'it cheated' } as const;
    const logger = createLogger({ process: 'test', level: 'silent' });
    const look = { findings: [finding], unsure: [], answering: 3, keys: 1 };
    expect(await createNoteSignerLook({ pool, clock: databaseClock, logger })(look)).toMatchObject({ open: 1 });
    const { rows } = await pool.query('select action, changes from audit_inbox where account_id = $1 order by id', [
      accountId,
    ]);
    expect(rows).toMatchObject([
      { action: 'account_key.refreshed', changes: { before: { epoch: 1 }, after: { epoch: 2 } } },
      { action: 'signer_alert.opened', changes: null },
    ]);
  });
});
