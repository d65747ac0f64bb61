import { inTransaction, type Pool, type Queryable } from './pool.ts';

/** Lists whose rows are counted as they come; the triggers of the schema say by what. */
export type CountedList = keyof typeof kept;

/** What a list may be filtered by and still have a kept count. The order is the one in which a key names them. */
const names = ['agent', 'type', 'action', 'actor', 'resource_type', 'result', 'status'] as const;
export type CountedFilter = { readonly [name in (typeof names)[number]]?: string | undefined };

/** The filters that go together, as the triggers count them. */
const kept = {
  events: ['', 'type'],
  audit_logs: ['', 'action', 'actor', 'resource_type', 'result', 'agent', 'agent/result'],
  webhook_deliveries: ['', 'type', 'status'],
  transactions: ['', 'agent', 'status', 'agent/status'],
} as const;

/** Changes that are folded in one database transaction, at most: some 50 ms. */
const batch = 10_000;

/** Whether the rows that these filters leave are counted as they come; others are counted one by one. */
export function isCounted(list: CountedList, filter: CountedFilter): boolean {
  const given = names.filter((name) => filter[name] !== undefined);
  // Parts of a key are told apart by slashes; a value that has one is an id of somebody else's making.
  if (given.some((name) => filter[name]!.includes('/'))) return false;
  return kept[list].some((filters) => filters === given.join('/'));
}

/**
 * How many rows of a list there are, whatever their number: what was folded, and what has changed since.
 * @param owner the account, or the webhook of deliveries
 * @param filter such that the list is counted by it (see `isCounted`)
 */
export async function readListCount(
  db: Queryable,
  { list, owner, filter = {} }: { list: CountedList; owner: string; filter?: CountedFilter },
): Promise<number> {
  if (!isCounted(list, filter))
    throw new RangeError(`Rows of ${list} are not counted by ${names.filter((name) => filter[name] !== undefined)}.`);
  const parts = names.flatMap((name) => (filter[name] === undefined ? [] : [`${name}=${filter[name]}`]));
  const { rows } = await db.query<{ count: number }>(
    `select coalesce(sum(n), 0)::float8 as count
     from (select count as n from list_counts where list = $1 and key = $2
           union all select delta from list_count_deltas where list = $1 and key = $2) counted`,
    [list, [owner, ...parts].join('/')],
  );
  return rows[0]!.count;
}

/**
 * Adds what has changed to the kept counts, one batch of it. Readers see each change once, before and after. One folder
 * works at a time, and none while a month is taken away; nobody else waits for it.
 * @returns whether there may be more to fold
 */
export function foldListCounts(pool: Pool): Promise<boolean> {
  return inTransaction(pool, async (db) => {
    const { rows } = await db.query<{ mine: boolean }>(
      `select pg_try_advisory_xact_lock(hashtext('list counts')) as mine`,
    );
    return rows[0]!.mine && (await foldBatch(db)) === batch;
  });
}

/** Begins after the lock was taken, and so sees all that the folder before has done. */
async function foldBatch(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ folded: number }>(
    `with taken as (
       delete from list_count_deltas where ctid = any (array(select ctid from list_count_deltas limit $1))
       returning list, key, month, delta),
     added as (
       insert into list_counts as c (list, key, month, count)
       select list, key, month, sum(delta) from taken group by list, key, month having sum(delta) <> 0
       on conflict (list, key, month) do update set count = c.count + excluded.count)
     select count(*)::int as folded from taken`,
    [batch],
  );
  return rows[0]!.folded;
}
