import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createFail, createSettle } from '../../activities/settle.ts';
import { findAccount } from '../../shared/db/accounts.ts';
import { listApprovals } from '../../shared/db/approvals.ts';
import { findAttempts } from '../../shared/db/attempts.ts';
import { listEvents } from '../../shared/db/events.ts';
import { migrate } from '../../shared/db/migrate.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { getTransaction, listTransactions } from '../../shared/db/transactions.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { renderApproval } from '../../shared/render-approval.ts';
import { renderEvent } from '../../shared/render-event.ts';
import { hashMigration } from '../upgrade/save-release.ts';

const folder = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const dumps = folder('../upgrade/dumps');
const dir = folder('../../shared/db/migrations');
const names = readdirSync(dir)
  .map((file) => file.replace(/\.sql$/, ''))
  .sort();
/** One dump for each version that was released: named after the last migration that it has. */
const releases = readdirSync(dumps)
  .sort()
  .map((file) => {
    const sql = readFileSync(`${dumps}/${file}`, 'utf8');
    const migrations = [...sql.matchAll(/^-- migration (\S+) ([0-9a-f]{64})$/gm)].map(([, name, hash]) => ({
      name: name!,
      hash: hash!,
    }));
    return { release: file.replace(/\.sql$/, ''), sql, migrations };
  });

function urlOf(base: string, database: string): string {
  const url = new URL(base);
  url.pathname = `/${database}`;
  return url.href;
}
const silent = { debug() {}, info() {}, warn() {}, error() {} };
/** A database with the schema of a release. @param count of its migrations */
async function createDatabase(database: string, count: number): Promise<string> {
  await asSuperuser(undefined, `create database ${database}`);
  await asSuperuser(database, readFileSync(folder('../../deploy/roles.sql'), 'utf8'));
  const databaseUrl = urlOf(inject('stack').ownerUrl, database);
  await runner({ databaseUrl, dir, direction: 'up', migrationsTable: 'pgmigrations', logger: silent, count });
  return databaseUrl;
}
/** Rows as they were, whatever the tables' triggers would make of new ones; and nothing twice that migrations add. */
async function load(database: string, sql: string): Promise<void> {
  const tables = [...sql.matchAll(/^insert into (\w+) /gm)].map(([, table]) => table);
  await asSuperuser(
    database,
    `set session_replication_role = replica; truncate ${tables.join(', ')} cascade;\n${sql}`,
    `select setval(pg_get_serial_sequence(quote_ident(table_name), column_name), 1000000)
     from information_schema.columns where table_schema = 'public' and is_identity = 'YES'`,
  );
}
async function asSuperuser(database: string | undefined, ...statements: string[]): Promise<void> {
  const { superuserUrl } = inject('stack');
  const client = new pg.Client({ connectionString: database ? urlOf(superuserUrl, database) : superuserUrl });
  await client.connect();
  try {
    for (const sql of statements) await client.query(sql);
  } finally {
    await client.end();
  }
}

describe('migrations that were released', () => {
  it('are there as dumps, every one but those that are yet to be released', () => {
    expect(releases.map(({ release }) => release)).toEqual([
      ...['0001', '0002', '0003', '0004', '0005', '0006', '0009', '0012', '0013'],
    ]);
  });

  it.each(releases)('are never changed: those of release $release', ({ migrations }) => {
    expect(migrations.map(({ name }) => name)).toEqual(names.slice(0, migrations.length));
    for (const { name, hash } of migrations) expect(hashMigration(dir, name), name).toBe(hash);
  });
});

describe.each(releases)('what release $release left in its database', ({ release, sql, migrations }) => {
  const database = `dump_${release}_${randomBytes(6).toString('hex')}`;
  let pool: Pool;
  let ids: { id: string; account_id: string; status: string; amount_minor: string }[];

  beforeAll(async () => {
    const databaseUrl = await createDatabase(database, migrations.length);
    await load(database, sql);
    pool = createPool({ url: urlOf(inject('stack').appUrl, database), application: 'test' });
    ({ rows: ids } = await pool.query('select id, account_id, status, amount_minor from transactions order by id'));
    expect(await migrate({ databaseUrl })).toEqual(names.slice(migrations.length));
  });
  afterAll(async () => {
    await pool?.end();
    await asSuperuser(undefined, `drop database if exists ${database} with (force)`);
  });
  const accountId = () => ids[0]!.account_id;

  it('is all there, and every list of the API shows it', async () => {
    expect(ids.length).toBeGreaterThanOrEqual(6);
    const page = { accountId: accountId(), limit: 100, offset: 0 };
    const shown = await listTransactions(pool, page);
    expect(shown.map(({ id, amount_minor }) => [id, amount_minor]).sort()).toEqual(
      ids.map(({ id, amount_minor }) => [id, amount_minor]).sort(),
    );
    for (const { id } of ids) await findAttempts(pool, { transactionId: id });
    expect(renderAccount((await findAccount(pool, { id: accountId() }))!)).toMatchObject({ id: accountId() });
    for (const row of await listEvents(pool, page))
      expect(renderEvent(row, { livemode: false })).toHaveProperty('type');
    for (const row of await listApprovals(pool, page)) expect(renderApproval(row)).toHaveProperty('status');
  });

  it('disagrees with itself nowhere', async () => {
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('lets what was open go on, and end', async () => {
    const { rows: open } = await pool.query<{ id: string }>(
      `select id from transactions join slots on transaction_id = id where status = 'pending' and closed_at is null`,
    );
    expect(open.length).toBeGreaterThanOrEqual(2);
    for (const { id } of open) expect(await createSettle({ pool })(id)).toMatchObject({ state: 'open' });
    const { rows: unsent } = await pool.query<{ id: string }>(
      `select id from transactions where status = 'pending' and not exists (select from slots where transaction_id = id)`,
    );
    for (const { id } of unsent) {
      const ended = await createFail({ pool })(id, 'dropped', 'It has waited for too long.');
      expect(ended).toMatchObject({ status: 'failed' });
      expect(await getTransaction(pool, { id })).toMatchObject({ status: 'failed', failure_code: 'dropped' });
    }
    expect(await findMismatches(pool)).toEqual([]);
  });
});

describe('a version that is being replaced', () => {
  const database = `old_${randomBytes(6).toString('hex')}`;
  afterAll(() => asSuperuser(undefined, `drop database if exists ${database} with (force)`));

  it('may write all that it writes into the schema of this one', async () => {
    await createDatabase(database, names.length);
    // Its columns, none of the new ones: what is gone, renamed, or must be told would fail here.
    await load(database, releases.at(-1)!.sql);
  });
});
