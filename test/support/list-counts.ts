import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';

/** Every key that is counted, as counting the rows one by one says. */
const byRows = `
  select 'events' as list, k.key, count(*) as n from events cross join lateral (values
    (account_id), (account_id || '/type=' || type)) k (key) group by k.key
  union all
  select 'audit_logs', k.key, count(*) from audit_logs cross join lateral (values
    (account_id), (account_id || '/action=' || action), (account_id || '/actor=' || actor_id),
    (account_id || '/resource_type=' || resource_type), (account_id || '/result=' || result),
    (account_id || '/agent=' || agent_id), (account_id || '/agent=' || agent_id || '/result=' || result)) k (key)
  where k.key is not null group by k.key
  union all
  select 'webhook_deliveries', k.key, count(*) from webhook_deliveries cross join lateral (values
    (webhook_id), (webhook_id || '/type=' || event_type), (webhook_id || '/status=' || status)) k (key) group by k.key
  union all
  select 'transactions', k.key, count(*) from transactions cross join lateral (values
    (account_id), (account_id || '/agent=' || agent_id), (account_id || '/status=' || status),
    (account_id || '/agent=' || agent_id || '/status=' || status)) k (key) group by k.key`;

const byCounts = `
  select list, key, sum(n) as n from (
    select list, key, count as n from list_counts union all select list, key, delta from list_count_deltas) c
  group by list, key having sum(n) <> 0`;

export interface Miscount {
  readonly list: string;
  readonly key: string;
  readonly rows: number;
  readonly counted: number;
}

/** Where kept counts and rows differ, both as of one moment. */
export function findMiscounts(pool: Pool): Promise<Miscount[]> {
  return inTransaction(pool, async (db) => {
    await db.query('set transaction isolation level repeatable read');
    return compare(db);
  });
}

async function compare(db: Queryable): Promise<Miscount[]> {
  const { rows } = await db.query<Miscount>(
    `select list, key, coalesce(r.n, 0)::int as rows, coalesce(c.n, 0)::int as counted
     from (${byRows}) r full join (${byCounts}) c using (list, key) where r.n is distinct from c.n`,
  );
  return rows;
}
