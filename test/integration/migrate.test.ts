import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/client.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const all = readdirSync(new URL('../../shared/db/migrations', import.meta.url)).length;
const databases: string[] = [];

/** A connection of the superuser. */
async function connect(database?: string): Promise<pg.Client> {
  const url = new URL(inject('stack').superuserUrl);
  if (database) url.pathname = `/${database}`;
  const client = new pg.Client({ connectionString: url.href });
  client.on('error', () => {});
  await client.connect();
  return client;
}
async function createDatabase() {
  const name = `migrate_${randomBytes(8).toString('hex')}`;
  const superuser = await connect();
  await superuser.query(`create database ${name}`).finally(() => superuser.end());
  databases.push(name);
  const client = await connect(name);
  await client.query(readFileSync(new URL('../../deploy/roles.sql', import.meta.url), 'utf8'));
  const url = new URL(inject('stack').ownerUrl);
  url.pathname = `/${name}`;
  return { client, url: url.href };
}

/** The command that a deployment runs, as a process. */
function startMigrating(url: string) {
  const child = spawn(process.execPath, ['shared/db/migrate.ts'], {
    cwd: root,
    env: { PATH: process.env.PATH, DATABASE_OWNER_URL: url },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, ended, output: () => output };
}
async function migrationsOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>('select count(*)::int from pgmigrations');
  return rows[0]!.count;
}
// Other tests use other databases of the same server.
const ofThisDatabase = `select from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and wait_event = $1`;
const advisoryLocks = `select from pg_locks where locktype = 'advisory' and granted
  and database = (select oid from pg_database where datname = current_database())`;
const waitingFor = (client: pg.Client, what: string) =>
  eventually(
    () => client.query(ofThisDatabase, [what]),
    ({ rowCount }) => rowCount! > 0,
  );

afterAll(async () => {
  const superuser = await connect();
  for (const name of databases) await superuser.query(`drop database if exists ${name} with (force)`);
  await superuser.end();
});

describe('the migration of the schema', () => {
  it('is run by one of several processes that begin at once; the others wait and find it done', async () => {
    const { client, url } = await createDatabase();
    const processes = Array.from({ length: 3 }, () => startMigrating(url));
    expect(await Promise.all(processes.map(({ ended }) => ended))).toEqual([0, 0, 0]);
    const told = processes.map(({ output }) => output().trim()).sort();
    expect(told.filter((text) => text === 'The schema is up to date.')).toHaveLength(2);
    expect(told[0]).toMatch(/^Migrated: 0001_first-payment, 0002_policies, /);
    expect(await migrationsOf(client)).toBe(all);
    await client.end();
  });

  describe('of which one has been killed', () => {
    const before = 5;
    let database: Awaited<ReturnType<typeof createDatabase>>;
    beforeAll(async () => {
      database = await createDatabase();
      const logger = { debug() {}, info() {}, warn() {}, error() {} };
      const dir = fileURLToPath(new URL('../../shared/db/migrations', import.meta.url));
      await runner({
        ...{ databaseUrl: database.url, dir, direction: 'up', migrationsTable: 'pgmigrations', logger },
        count: before,
      });
    });
    afterAll(() => database.client.end());

    it('goes on from the last whole one, and nothing is half done', { timeout: 240_000 }, async () => {
      const { client, url } = database;
      const holder = await connect(client.database!);
      // The sixth counts transactions after it has made tables: it waits here.
      await holder.query('begin; lock table transactions in access exclusive mode');
      const first = startMigrating(url);
      await waitingFor(client, 'relation');
      first.child.kill('SIGKILL');
      expect(await first.ended).toBeNull();
      // Another process waits for the lock of the dead one no longer than the server takes to notice its end.
      const second = startMigrating(url);
      await eventually(
        () => client.query(advisoryLocks),
        ({ rowCount }) => rowCount === 1,
      );
      expect(await migrationsOf(client)).toBe(before);
      await holder.query('rollback');
      expect(await second.ended).toBe(0);
      expect(await migrationsOf(client)).toBe(all);
      await holder.end();
    });
  });

  it('keeps nobody waiting for long behind a table in use, and is done once it is free', {
    timeout: 240_000,
  }, async () => {
    const { client, url } = await createDatabase();
    expect(await startMigrating(url).ended).toBe(0);
    // As if the newest one were yet to come: it changes this table.
    await client.query(`delete from pgmigrations where name like '0014%'`);
    await client.query('drop table gas_fills, gas_levels, freeze_notes, frozen_payments, freeze_orders, freezes');
    await client.query('alter table installation drop column database_identity');
    await client.query('alter table account_keys drop column retired_at');
    await client.query('alter table accounts drop column gas_top_ups');
    const reader = await connect(client.database!);
    await reader.query('begin');
    await reader.query('select from accounts');
    const migrating = startMigrating(url);
    await eventually(
      async () => migrating.output(),
      (text) => text.includes('in use'),
    );
    // Others have their turn between two tries.
    const other = await connect(client.database!);
    const from = performance.now();
    await other.query('select from accounts');
    expect(performance.now() - from).toBeLessThan(30_000);
    await reader.query('commit');
    expect(await migrating.ended).toBe(0);
    expect(migrating.output()).toContain('Migrated: 0014_operators');
    await Promise.all([client.end(), reader.end(), other.end()]);
  });
});
