import type { Queryable } from './pool.ts';

/** Lists whose rows are counted as they come; the triggers of the schema say by what. */
export type CountedList = 'events' | 'audit_logs' | 'webhook_deliveries' | 'transactions';

/** What a list may be filtered by and still have a kept count. The order is the one in which a key names them. */
export interface CountedFilter {
  readonly agent?: string | undefined;
  readonly type?: string | undefined;
  readonly action?: string | undefined;
  readonly result?: string | undefined;
  readonly status?: string | undefined;
}

const names = ['agent', 'type', 'action', 'result', 'status'] as const;

/**
 * How many rows of a list there are, whatever their number: what was folded, and what has changed since.
 * @param owner the account, or the webhook of deliveries
 */
export async function readListCount(
  db: Queryable,
  { list, owner, filter = {} }: { list: CountedList; owner: string; filter?: CountedFilter },
): Promise<number> {
  const parts = names.flatMap((name) => (filter[name] === undefined ? [] : [`${name}=${filter[name]}`]));
  const { rows } = await db.query<{ count: number }>(
    `select coalesce(sum(n), 0)::float8 as count
     from (select count as n from list_counts where list = $1 and key = $2
           union all select delta from list_count_deltas where list = $1 and key = $2) counted`,
    [list, [owner, ...parts].join('/')],
  );
  return rows[0]!.count;
}
