import type { Queryable } from './pool.ts';

/** The instant of a decision, to the millisecond. */
export type Clock = (db: Queryable) => Promise<Date>;

/** The database's clock: windows are the same whichever process decides. */
export const databaseClock: Clock = async (db) => {
  const { rows } = await db.query<{ now: Date }>('select clock_timestamp()::timestamptz(3) as now');
  return rows[0]!.now;
};
