import type { Queryable } from './pool.ts';

/** What a look at the database needs to know. */
export interface DoctorFacts {
  readonly version: string;
  /** Such as 180001. */
  readonly versionNumber: number;
  readonly now: Date;
  /** Whether our role owns a table, or is a superuser. */
  readonly isOwner: boolean;
  /** Whether it may make tables. */
  readonly mayCreate: boolean;
  /** Names of the migrations that were run. */
  readonly applied: readonly string[];
  /** What the installation is; null while no process has claimed it. */
  readonly kind: string | null;
}

export async function readDoctorFacts(db: Queryable): Promise<DoctorFacts> {
  const { rows } = await db.query<DoctorFacts>(
    `select current_setting('server_version') as version, current_setting('server_version_num')::int as "versionNumber",
            clock_timestamp() as now,
            (select rolsuper from pg_roles where rolname = current_user)
              or exists (select from pg_tables where schemaname = 'public' and tableowner = current_user) as "isOwner",
            has_schema_privilege('public', 'create') as "mayCreate",
            (select environment from installation) as kind`,
  );
  const applied = await db.query<{ name: string }>('select name from pgmigrations order by id');
  return { ...rows[0]!, applied: applied.rows.map(({ name }) => name) };
}
