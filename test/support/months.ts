import type { MonthlyTable } from '../../shared/db/partitions.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { newId } from '../../shared/ids.ts';

/** The first moment of the month that is so many months after this one, in UTC. */
export function monthStart(offset: number, now = new Date()): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset));
}

/** What the month's rows of a table are kept in. */
export function partitionName(table: MonthlyTable, offset: number): string {
  return `${table}_${monthStart(offset).toISOString().slice(0, 7).replace('-', '_')}`;
}

/** Makes room for a month, as the schema's owner may for any. */
export async function makePartition(owner: Queryable, { table, offset }: { table: MonthlyTable; offset: number }) {
  const month = monthStart(offset).toISOString().slice(0, 10);
  await owner.query('select make_partition($1, $2::date)', [table, month]);
}

/** An event of that moment. @returns its id and where it is kept */
export async function insertEventAt(
  db: Queryable,
  { accountId, at }: { accountId: string; at: Date },
): Promise<{ id: string; partition: string }> {
  const { rows } = await db.query<{ id: string; partition: string }>(
    `insert into events (id, account_id, type, resource_type, resource_id, data, created_at)
     values ($1, $2, 'payment.pending', 'transaction', 'tx_1', '{}', $3) returning id, tableoid::regclass::text as partition`,
    [newId('evt'), accountId, at],
  );
  return rows[0]!;
}
