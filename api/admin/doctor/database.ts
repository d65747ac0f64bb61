import { readdirSync } from 'node:fs';
import { readDoctorFacts } from '../../../shared/db/doctor-facts.ts';
import type { Pool } from '../../../shared/db/pool.ts';
import { type Finding, look, ok, wrong } from './finding.ts';

/** The oldest Postgres that the migrations and statements are tested with. */
const oldestMajor = 15;
/** Clocks that differ by more let limits of a day and receipts be judged by different days. */
const maxSkewMs = 1_000;

const migrations = new URL('../../../shared/db/migrations/', import.meta.url);

/** The database: version, schema, what our role may, clock. @param environment what this installation is to be */
export async function checkDatabase(pool: Pool, { environment }: { environment: string }): Promise<Finding[]> {
  const findings: Finding[] = [];
  const first = await look('database', 'Check DATABASE_URL, and that Postgres runs and may be reached.', async () => {
    const askedAt = Date.now();
    const facts = await readDoctorFacts(pool);
    const { version, isOwner, mayCreate, applied, kind } = facts;
    const major = Math.floor(facts.versionNumber / 10_000);
    const skewMs = Math.round(facts.now.getTime() - (askedAt + Date.now()) / 2);
    const [missing, unknown] = compareMigrations(applied);
    findings.push(
      missing.length > 0
        ? wrong(
            'schema',
            `migrations are missing: ${missing.join(', ')}. Run shared/db/migrate.ts with DATABASE_OWNER_URL.`,
          )
        : unknown.length > 0
          ? wrong('schema', `the database is of a newer version (${unknown.join(', ')}). Run that version.`)
          : ok('schema', `all ${applied.length} migrations are applied`),
      isOwner || mayCreate
        ? wrong(
            'database role',
            'it may change the schema, and so the audit log. Name a role in DATABASE_URL that is not its owner.',
          )
        : ok('database role', 'it cannot change the schema'),
      Math.abs(skewMs) > maxSkewMs
        ? wrong(
            'clock of the database',
            `it differs by ${skewMs} ms from this machine's. Let both follow the same time server.`,
          )
        : ok('clock of the database', `within ${Math.max(1, Math.abs(skewMs))} ms of this machine's`),
      kind !== null && kind !== environment
        ? wrong(
            'environment',
            `the database is of a ${kind} installation, and PURSER_ENV says ${environment}. Set the right one.`,
          )
        : ok('environment', environment),
    );
    return major < oldestMajor
      ? wrong('database', `Postgres ${version} is too old. Use ${oldestMajor} or newer.`)
      : ok('database', `Postgres ${version}`);
  });
  return [first, ...findings];
}

/** @returns those that are to be run, and those that this version does not know */
function compareMigrations(applied: readonly string[]): [string[], string[]] {
  const ours = readdirSync(migrations)
    .map((file) => file.replace(/\.[a-z]+$/, ''))
    .toSorted();
  return [ours.filter((name) => !applied.includes(name)), applied.filter((name) => !ours.includes(name))];
}
