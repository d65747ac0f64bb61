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
