import type { Queryable } from './pool.ts';

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

/**
 * Who the database is: its cluster, its timeline (another one after a restore to a point in time, and after a standby took
 * over), and its own id there; as it was known last, and as it is. Undefined while no process has claimed the installation.
 */
export async function readDatabaseIdentity(
  db: Queryable,
): Promise<{ known: string | null; found: string } | undefined> {
  const { rows } = await db.query<{ known: string | null; found: string }>(
    `select database_identity as known, concat_ws('/', (select system_identifier from pg_control_system()),
              left(pg_walfile_name(pg_current_wal_lsn()), 8), (select oid from pg_database where datname = current_database())) as found
     from installation`,
  );
  return rows[0];
}

/** @returns whether this call changed it: of several at once, one does */
export async function putDatabaseIdentity(
  db: Queryable,
  { known, found }: { known: string | null; found: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'update installation set database_identity = $2 where database_identity is not distinct from $1',
    [known, found],
  );
  return rowCount === 1;
}
