import pg from 'pg';
import type { MisplacedRows } from '../domain/months.ts';
import type { Queryable } from './pool.ts';

/** Tables that are kept by month, in UTC. */
export type MonthlyTable = 'events' | 'webhook_deliveries' | 'webhook_attempts' | 'audit_logs';

/**
 * Makes room for one month that has none, of this one and the next ones.
 * @returns the name of what was made; undefined when nothing is missing
 * @throws what `isBusy` knows, where somebody uses the table for longer than a moment: call again
 */
export async function makeNextPartition(
  db: Queryable,
  { monthsAhead }: { monthsAhead: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ name: string | null }>('select make_next_partition($1) as name', [monthsAhead]);
  return rows[0]!.name ?? undefined;
}

/**
 * Takes away the oldest month of a table with all its rows, where it is older than so many whole months.
 * @returns the name of what was dropped; undefined when none is that old
 * @throws what `isBusy` and `neededBecause` know
 */
export async function dropOldestPartition(
  db: Queryable,
  { table, keepMonths }: { table: MonthlyTable; keepMonths: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ name: string | null }>('select drop_oldest_partition($1, $2) as name', [
    table,
    keepMonths,
  ]);
  return rows[0]!.name ?? undefined;
}

/** Rows that came before their month had a place of its own. */
export async function findMisplacedRows(db: Queryable): Promise<MisplacedRows[]> {
  const { rows } = await db.query<MisplacedRows>(
    `select parent as "table", to_char(month, 'YYYY-MM') as month, count::float8 from find_misplaced_rows()`,
  );
  return rows;
}

/** Whether others used the table for as long as a change of its months waits. */
export function isBusy(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '55P03';
}

/** Why a month cannot be dropped although it is old, if that is what the error says. */
export function neededBecause(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError && error.code === '55006' ? error.message : undefined;
}
