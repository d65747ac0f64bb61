import type { Queryable } from './pool.ts';
import type { TransactionRow } from './transactions.ts';

/** Payments younger than this are being started by whoever stored them. */
const startedByThen = '10 seconds';
/** How often each open payment is visited. */
const visitEvery = '5 minutes';
/** How often one is visited that was sent on a chain nobody watches. */
const visitUnwatchedEvery = '1 minute';
/** A payment on which nothing was done for so long makes no progress. */
const noProgressAfter = '2 minutes';
/** How often one without progress is nudged: each nudge makes its history longer, and it also looks by itself. */
const nudgeEvery = '15 minutes';
/** A watcher notes its chain's head several times a minute while a payment waits. */
const unwatchedAfter = '1 minute';
/** By so much the clocks of Temporal and Postgres may differ. */
const clockSkew = '10 seconds';

/** A pending payment that is to be visited. */
export interface UnattendedRow extends TransactionRow {
  /** It waits for nobody's answer, and still nothing was done on it for long. */
  readonly is_stuck: boolean;
  /** It waits for a nonce of its wallet. */
  readonly is_waiting: boolean;
}

const nudges = (instant: string) =>
  `floor(extract(epoch from ${instant} - t.updated_at) / extract(epoch from interval '${nudgeEvery}'))`;

/** Once when it has made no progress for so long, then at each interval of nudges: told by the visit before. */
const unattended = `select t.*, t.waiting_since is not null as is_waiting,
    t.status_detail <> 'awaiting_approval' and t.updated_at < now() - interval '${noProgressAfter}'
      and (t.reconciled_at is null or t.reconciled_at < t.updated_at + interval '${noProgressAfter}'
        or ${nudges('now()')} > ${nudges('t.reconciled_at')} or t.chain = any ($1)) as is_stuck
  from transactions t`;

/**
 * Pending payments whose turn it is to be visited, longest unvisited first. Nothing is marked: whoever dies before
 * `markVisited` leaves them to the next one.
 * @param unwatched chains that nobody watches
 */
export async function listUnattended(
  db: Queryable,
  { unwatched, limit }: { unwatched: readonly string[]; limit: number },
): Promise<UnattendedRow[]> {
  const { rows } = await db.query<UnattendedRow>(
    `${unattended}
     where t.status = 'pending' and t.created_at < now() - interval '${startedByThen}'
       and (t.reconciled_at is null or t.reconciled_at < now() - interval '${visitEvery}'
         or (t.chain = any ($1) and t.status_detail in ('broadcast', 'confirming')
             and t.reconciled_at < now() - interval '${visitUnwatchedEvery}'))
     order by t.reconciled_at nulls first, t.id limit $2`,
    [unwatched, limit],
  );
  return rows;
}

/** Of payments whose workflow was ended from outside, the pending ones that were not visited since. */
export async function listEnded(
  db: Queryable,
  { ended }: { ended: readonly { id: string; closedAt: Date }[] },
): Promise<UnattendedRow[]> {
  const { rows } = await db.query<UnattendedRow>(
    `${unattended} join unnest($2::text[], $3::timestamptz[]) as ended (id, closed_at) using (id)
     where t.status = 'pending'
       and (t.reconciled_at is null or t.reconciled_at < ended.closed_at + interval '${clockSkew}')`,
    [[], ended.map(({ id }) => id), ended.map(({ closedAt }) => closedAt)],
  );
  return rows;
}

/** Notes that these were visited now; one that somebody works on at this moment is passed over. */
export async function markVisited(db: Queryable, { ids }: { ids: readonly string[] }): Promise<void> {
  await db.query(
    `update transactions set reconciled_at = now()
     where id in (select id from transactions where id = any ($1) and status = 'pending' for update skip locked)`,
    [ids],
  );
}

/** A chain on which hashes wait that nobody watches. */
export interface UnwatchedChain {
  readonly chain: string;
  /** Payments that were sent and are not final. */
  readonly payments: number;
  /** When its watcher last saw a block; ISO 8601, null for never. */
  readonly seen_at: string | null;
}

/** Chains whose head nobody has noted for long although payments wait for it. */
export async function listUnwatchedChains(db: Queryable): Promise<UnwatchedChain[]> {
  const { rows } = await db.query<UnwatchedChain>(
    `select a.chain, count(distinct a.transaction_id)::int as payments,
            to_char(h.seen_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as seen_at
     from attempts a join transactions t on t.id = a.transaction_id left join chain_heads h on h.chain = a.chain
     where a.final_at is null and t.status = 'pending' and a.created_at < now() - interval '${unwatchedAfter}'
       and (h.seen_at is null or h.seen_at < now() - interval '${unwatchedAfter}')
     group by a.chain, h.seen_at order by a.chain`,
  );
  return rows;
}
