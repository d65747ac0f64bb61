import { freeze } from './freezes.ts';
import { inTransaction, type Pool, type Queryable } from './pool.ts';

/** What the database says of the server that it is on. */
export interface DatabaseFacts {
  /** Whether it is the server that `npm start` brings along. */
  readonly is_embedded: boolean;
  /** What the installation is; null while no process has claimed it. */
  readonly environment: 'sandbox' | 'production' | null;
}

export async function readDatabaseFacts(db: Queryable): Promise<DatabaseFacts> {
  const { rows } = await db.query<DatabaseFacts>(
    `select coalesce(current_setting('purser.embedded', true), '') = 'on' as is_embedded,
            (select environment from installation) as environment`,
  );
  return rows[0]!;
}

/** Makes the installation what the process is, unless another one was first. */
export async function claimInstallation(
  db: Queryable,
  { environment }: { environment: 'sandbox' | 'production' },
): Promise<void> {
  await db.query('insert into installation (environment) values ($1) on conflict do nothing', [environment]);
}

/** Why an installation is frozen whose database is another one than it was. */
const restoredReason =
  'the database is another one than before (a restore, or a standby that took over): compare it with the signers by npm run admin -- reconcile';

/**
 * Compares the database with the one that was known last: its server's identity and timeline, and its own id there. All
 * of that is in the database itself, so that a copy of it that runs elsewhere, or was brought to an earlier time, tells
 * another one than it remembers. Then the whole installation is frozen, at once and in one database transaction.
 * Files put back in place while the server was down tell the same: freeze by hand before they are used.
 * @returns whether it was frozen by this call
 */
export async function noteDatabase(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ known: string | null; found: string }>(
    `select database_identity as known, concat_ws('/', (select system_identifier from pg_control_system()),
              left(pg_walfile_name(pg_current_wal_lsn()), 8), (select oid from pg_database where datname = current_database())) as found
     from installation`,
  );
  const facts = rows[0];
  if (!facts || facts.known === facts.found) return false;
  return inTransaction(pool, async (db) => {
    const isOther = facts.known !== null;
    if (isOther) await freeze(db, { scope: 'installation', reason: restoredReason, by: 'system' });
    const { rowCount } = await db.query(
      'update installation set database_identity = $2 where database_identity is not distinct from $1',
      [facts.known, facts.found],
    );
    return isOther && rowCount === 1;
  });
}
