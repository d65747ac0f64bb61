import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PG_MIGRATE_LOCK_ID, runner } from 'node-pg-migrate';
import pg from 'pg';
import { fail, printResult, readCommandLine, wordsOfError } from '../command-line.ts';

const dir = fileURLToPath(new URL('./migrations', import.meta.url));

/** How long a migration waits for a table in use: whoever asks for the table meanwhile waits behind it. */
const lockTimeoutMs = 3_000;
/** Before it is tried again, so that what has waited behind it gets its turn. */
const pauseMs = 2_000;
/** For long reports and backups that read a table: about ten minutes. */
const maxTries = 120;
/** A server notices within this that the process which migrates is gone, and takes back what it has not finished. */
const checkClientMs = 2_000;
const lockNotAvailable = '55P03';

/**
 * Brings the schema up to date. Forward only; each migration whole or not at all; by one process at a time, others wait
 * for it (advisory lock) and find nothing left to do. Nobody who uses the tables is kept waiting for long.
 * @param databaseUrl of a role that may change the schema
 * @returns names of the migrations that were run now
 */
export async function migrate({
  databaseUrl,
  log = () => {},
}: {
  databaseUrl: string;
  log?: (line: string) => void;
}): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  // A connection that breaks is told by the statement under way; without a listener it would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(`set client_connection_check_interval = ${checkClientMs}`);
    // The lock of the library, taken here: waiting for another process must have no end, waiting for tables must.
    await client.query(`select pg_advisory_lock(${PG_MIGRATE_LOCK_ID})`);
    await client.query(`set lock_timeout = ${lockTimeoutMs}`);
    return await runPatiently(client, log);
  } finally {
    await client.end();
  }
}

async function runPatiently(client: pg.Client, log: (line: string) => void): Promise<string[]> {
  const done: string[] = [];
  let tried = 0;
  for (;;)
    try {
      const ran = await runOne(client, log);
      if (ran === undefined) return done;
      done.push(ran);
    } catch (error) {
      await client.query('rollback');
      tried += 1;
      if ((error as pg.DatabaseError).code !== lockNotAvailable || tried === maxTries) throw error;
      log(`A table that is to be changed is in use; trying again in ${pauseMs / 1000} s (${tried} of ${maxTries}).`);
      await delay(pauseMs);
    }
}

/** @returns the name of the migration that was run; undefined when there is none left */
async function runOne(dbClient: pg.Client, log: (line: string) => void): Promise<string | undefined> {
  const [done] = await runner({
    dbClient,
    dir,
    direction: 'up',
    count: 1,
    migrationsTable: 'pgmigrations',
    checkOrder: true,
    noLock: true,
    // Errors are thrown as well; told twice they would come with a stack.
    logger: { debug() {}, info() {}, warn: log, error() {} },
  });
  return done?.name;
}

const usage = `usage: node shared/db/migrate.ts [--json]

  Brings the schema at DATABASE_OWNER_URL up to date, and says what was done. One process does it, others wait. Exit status:
  0 it is up to date, 1 it is not, 2 the command line is wrong.`;

async function main(databaseUrl: string | undefined, { json }: { json?: boolean | undefined }): Promise<void> {
  if (!databaseUrl)
    throw new Error('DATABASE_OWNER_URL is missing: the postgres:// URL of a role that may change the schema.');
  const done = await migrate({ databaseUrl, log: (line) => console.error(line) });
  const show = () => (done.length === 0 ? 'The schema is up to date.' : `Migrated: ${done.join(', ')}`);
  printResult({ migrated: done }, { json, show });
}

if (import.meta.main) {
  const values = readCommandLine(usage, {});
  try {
    await main(process.env.DATABASE_OWNER_URL, values);
  } catch (error) {
    // A database that is away or refuses says so in its own words.
    fail(`The schema was not migrated: ${wordsOfError(error)}`);
  }
}
