import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import pg from 'pg';

const dir = fileURLToPath(new URL('./migrations', import.meta.url));

/**
 * Brings the schema up to date. Forward only; safe to call from several processes at once (advisory lock).
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
  const dbClient = new pg.Client({ connectionString: databaseUrl });
  // A connection that breaks is told by the statement under way; without a listener it would end the process.
  dbClient.on('error', () => {});
  await dbClient.connect();
  try {
    const done = await runner({
      dbClient,
      dir,
      direction: 'up',
      migrationsTable: 'pgmigrations',
      checkOrder: true,
      advisoryLockMode: 'wait',
      // Errors are thrown as well; told twice they would come with a stack.
      logger: { debug() {}, info() {}, warn: log, error() {} },
    });
    return done.map((migration) => migration.name);
  } finally {
    await dbClient.end();
  }
}

async function main(databaseUrl: string | undefined): Promise<void> {
  if (!databaseUrl)
    throw new Error('DATABASE_OWNER_URL is missing: the postgres:// URL of a role that may change the schema.');
  const done = await migrate({ databaseUrl, log: (line) => console.error(line) });
  console.log(done.length === 0 ? 'The schema is up to date.' : `Migrated: ${done.join(', ')}`);
}

if (import.meta.main) {
  try {
    await main(process.env.DATABASE_OWNER_URL);
  } catch (error) {
    // A database that is away or refuses says so in its own words; some such errors have a code and no message.
    const { message, code } = error as NodeJS.ErrnoException;
    console.error(`The schema was not migrated: ${message || code}`);
    process.exit(1);
  }
}
