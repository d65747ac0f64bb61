import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';

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
  const done = await runner({
    databaseUrl,
    dir,
    direction: 'up',
    migrationsTable: 'pgmigrations',
    checkOrder: true,
    advisoryLockMode: 'wait',
    // Errors are thrown as well; told twice they would come with a stack.
    logger: { debug() {}, info() {}, warn: log, error() {} },
  });
  return done.map((migration) => migration.name);
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
