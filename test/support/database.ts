import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { inject } from 'vitest';
import { migrate } from '../../shared/db/migrate.ts';

/** How long a copy may wait for another one that is being made: Postgres copies a template one at a time. */
const COPY_TIMEOUT_MS = 180_000;

/** A database of one test file's own, migrated and empty. */
export interface TestDatabase {
  /** Role `purser_app`: rows only, as API and workers. */
  url: string;
  /** Role `purser_owner`: may change the schema. */
  ownerUrl: string;
  /** Ends open sessions and removes the database. */
  drop(): Promise<void>;
}

/** Makes a fresh database by copying the migrated template (some 30 ms). */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { superuserUrl, ownerUrl, appUrl, templateDatabase } = inject('stack');
  const name = `test_${randomBytes(8).toString('hex')}`;
  await query(superuserUrl, [
    // The lock makes parallel copies wait for each other instead of failing.
    `select pg_advisory_lock(hashtext('${templateDatabase}'))`,
    `create database ${name} template ${templateDatabase} owner purser_owner`,
    `revoke all on database ${name} from public`,
    `grant connect on database ${name} to purser_app`,
  ]);
  return {
    url: inDatabase(appUrl, name),
    ownerUrl: inDatabase(ownerUrl, name),
    drop: () => query(superuserUrl, [`drop database if exists ${name} with (force)`]),
  };
}

/** Prepares and migrates the database that the others are copies of. Returns its name. */
export async function createTemplateDatabase(o: { superuserUrl: string; ownerUrl: string }): Promise<string> {
  const name = 'test_template';
  await query(o.superuserUrl, [`create database ${name}`]);
  await query(inDatabase(o.superuserUrl, name), [
    readFileSync(new URL('../../deploy/roles.sql', import.meta.url), 'utf8'),
  ]);
  await migrate({ databaseUrl: inDatabase(o.ownerUrl, name) });
  return name;
}

function inDatabase(url: string, name: string): string {
  const result = new URL(url);
  result.pathname = `/${name}`;
  return result.href;
}

async function query(url: string, statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url, statement_timeout: COPY_TIMEOUT_MS });
  client.on('error', () => {});
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
