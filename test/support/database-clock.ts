import pg from 'pg';

/** A clock of a test database. Only `clock_timestamp()` goes by it, and only on connections made after it. */
export interface DatabaseClock {
  /** @param speed seconds of it a second; 0: it stands still */
  set(now: Date, speed?: number): Promise<void>;
  advance(ms: number): Promise<void>;
  /** As the statements see it. */
  now(): Promise<Date>;
  close(): Promise<void>;
}

/**
 * Puts a function of the test's own before that of Postgres, so that a test decides what time it is, and can let it run
 * fast. It stands still until it is set, at the present.
 */
export async function installClock({ ownerUrl }: { ownerUrl: string }): Promise<DatabaseClock> {
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  await owner.query(`
    create schema clocks;
    create table clocks.clock (shown timestamptz not null, since timestamptz not null, speed float8 not null);
    insert into clocks.clock values (now()::timestamptz(3), now(), 0);
    create function clocks.clock_timestamp() returns timestamptz language sql volatile as
      $$ select shown + (pg_catalog.clock_timestamp() - since) * speed from clocks.clock $$;
    grant usage on schema clocks to purser_app;
    grant select on clocks.clock to purser_app;
    do $$ begin
      execute format('alter database %I set search_path = clocks, pg_catalog, public', current_database());
    end $$`);
  return {
    async set(now, speed = 0) {
      await owner.query('update clocks.clock set shown = $1, since = pg_catalog.clock_timestamp(), speed = $2', [
        now,
        speed,
      ]);
    },
    async advance(ms) {
      await owner.query(`update clocks.clock set shown = shown + $1 * interval '1 millisecond'`, [ms]);
    },
    async now() {
      const { rows } = await owner.query<{ now: Date }>('select clocks.clock_timestamp() as now');
      return rows[0]!.now;
    },
    close: () => owner.end(),
  };
}
