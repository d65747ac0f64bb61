import type { Queryable } from './pool.ts';
import type { TransactionRow } from './transactions.ts';
import type { DeliveryRow } from './webhook-deliveries.ts';
import type { X402PaymentRow } from './x402-payments.ts';
import type { SessionRow } from './x402-sessions.ts';

/** Payments younger than this are being started by whoever stored them. */
const startedByThen = '10 seconds';
/** How often each open payment is visited. */
const visitEvery = '5 minutes';
/** How often one is visited that was sent on a chain nobody watches. */
const visitUnwatchedEvery = '1 minute';
/** How often a session is visited whose time is not over: there may be many, for weeks, and nothing is to be done. */
const visitSessionsEvery = '1 hour';
/** A payment on which nothing was done for so long makes no progress. */
const noProgressAfter = '2 minutes';
/** How often one without progress is nudged: each nudge makes its history longer, and it also looks by itself. */
const nudgeEvery = '15 minutes';
/** A watcher notes its chain's head several times a minute while a payment waits. */
const unwatchedAfter = '1 minute';
/** A delivery that was dispatched and is later than this has lost its workflow, or waits for a worker. */
const deliveryLateAfter = '1 minute';
/** By so much the clocks of Temporal and Postgres may differ. */
const clockSkew = '10 seconds';

/** How long after its time an x402 payment or session may still be open; final blocks come late on some chains. */
const lateAfter = '10 minutes';

/** A workflow that was ended from outside. */
export interface EndedRun {
  readonly id: string;
  readonly closedAt: Date;
}

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
export async function listEnded(db: Queryable, { ended }: { ended: readonly EndedRun[] }): Promise<UnattendedRow[]> {
  const { rows } = await db.query<UnattendedRow>(
    `${unattended} join unnest($2::text[], $3::timestamptz[]) as ended (id, closed_at) using (id)
     where t.status = 'pending'
       and (t.reconciled_at is null or t.reconciled_at < ended.closed_at + interval '${clockSkew}')`,
    [[], ended.map(({ id }) => id), ended.map(({ closedAt }) => closedAt)],
  );
  return rows;
}

/** What workflows of x402 follow, as far as visits are concerned: which rows are open, which too long, how often it is their turn. */
const x402 = {
  x402_payments: {
    isOpen: `(t.status = 'pending' or t.settlement = 'unsettled')`,
    isStuck: `case when t.status = 'completed' then t.valid_before < extract(epoch from now() - interval '${lateAfter}')
      else t.status_detail <> 'awaiting_approval' and t.updated_at < now() - interval '${lateAfter}' end`,
    visitEvery: `interval '${visitEvery}'`,
  },
  x402_sessions: {
    isOpen: 't.released_at is null',
    isStuck: `t.expires_at < now() - interval '${startedByThen}'`,
    visitEvery: `case when t.expires_at < now() then interval '${visitEvery}' else interval '${visitSessionsEvery}' end`,
  },
} as const;

/** An x402 payment or session that is to be visited; `is_stuck`: it should have ended by now. */
interface UnattendedRows {
  readonly x402_payments: X402PaymentRow & { readonly is_stuck: boolean };
  readonly x402_sessions: Omit<SessionRow, 'status'> & { readonly is_stuck: boolean };
}

/** Open x402 payments or sessions whose turn it is to be visited; see {@link listUnattended}. */
export async function listUnattendedX402<T extends keyof UnattendedRows>(
  db: Queryable,
  { table, limit }: { table: T; limit: number },
): Promise<UnattendedRows[T][]> {
  const { isOpen, isStuck, visitEvery: every } = x402[table];
  const { rows } = await db.query<UnattendedRows[T]>(
    `select t.*, ${isStuck} as is_stuck from ${table} t
     where ${isOpen} and t.created_at < now() - interval '${startedByThen}'
       and (t.reconciled_at is null or t.reconciled_at < now() - ${every})
     order by t.reconciled_at nulls first, t.id limit $1`,
    [limit],
  );
  return rows;
}

/** Of x402 payments or sessions whose workflow was ended from outside, the open ones that were not visited since. */
export async function listEndedX402<T extends keyof UnattendedRows>(
  db: Queryable,
  { table, ended }: { table: T; ended: readonly EndedRun[] },
): Promise<UnattendedRows[T][]> {
  const { isOpen, isStuck } = x402[table];
  const { rows } = await db.query<UnattendedRows[T]>(
    `select t.*, ${isStuck} as is_stuck
     from ${table} t join unnest($1::text[], $2::timestamptz[]) as ended (id, closed_at) using (id)
     where ${isOpen} and (t.reconciled_at is null or t.reconciled_at < ended.closed_at + interval '${clockSkew}')`,
    [ended.map(({ id }) => id), ended.map(({ closedAt }) => closedAt)],
  );
  return rows;
}

/**
 * Deliveries that were dispatched and are late, longest unvisited first. Those that wait for their time are not read: there
 * may be thousands, for hours. Nor are those that nobody has dispatched yet: they wait for their turn.
 */
export async function listLateDeliveries(db: Queryable, { limit }: { limit: number }): Promise<DeliveryRow[]> {
  const { rows } = await db.query<DeliveryRow>(
    `select * from webhook_deliveries d
     where d.status = 'pending' and d.dispatched_at < now() - interval '${deliveryLateAfter}'
       and d.next_attempt_at < now() - interval '${deliveryLateAfter}'
       and (d.reconciled_at is null or d.reconciled_at < now() - interval '${visitEvery}')
     order by d.reconciled_at nulls first, d.id limit $1`,
    [limit],
  );
  return rows;
}

/** Of deliveries whose workflow was ended from outside, the pending ones that were not visited since. */
export async function listEndedDeliveries(
  db: Queryable,
  { ended }: { ended: readonly EndedRun[] },
): Promise<DeliveryRow[]> {
  const { rows } = await db.query<DeliveryRow>(
    `select d.* from webhook_deliveries d join unnest($1::text[], $2::timestamptz[]) as ended (id, closed_at) using (id)
     where d.status = 'pending'
       and (d.reconciled_at is null or d.reconciled_at < ended.closed_at + interval '${clockSkew}')`,
    [ended.map(({ id }) => id), ended.map(({ closedAt }) => closedAt)],
  );
  return rows;
}

/** Notes that these were visited now; one that somebody works on at this moment is passed over. */
export async function markVisited(
  db: Queryable,
  { table, ids }: { table: 'transactions' | 'webhook_deliveries' | keyof UnattendedRows; ids: readonly string[] },
): Promise<void> {
  await db.query(
    `update ${table} set reconciled_at = now()
     where id in (select id from ${table} where id = any ($1) for update skip locked)`,
    [ids],
  );
}

/** A chain on which payments wait that nobody watches. */
export interface UnwatchedChain {
  readonly chain: string;
  /** Payments that were sent, or whose authorisation may be used, and that are not final. */
  readonly payments: number;
  /** When its watcher last saw a block; ISO 8601, null for never. */
  readonly seen_at: string | null;
}

/** Chains whose head nobody has noted for long although payments wait for it. */
export async function listUnwatchedChains(db: Queryable): Promise<UnwatchedChain[]> {
  const { rows } = await db.query<UnwatchedChain>(
    `select w.chain, count(distinct w.id)::int as payments,
            to_char(h.seen_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as seen_at
     from (
       select a.chain, a.transaction_id as id from attempts a join transactions t on t.id = a.transaction_id
       where a.final_at is null and t.status = 'pending' and a.created_at < now() - interval '${unwatchedAfter}'
       union all
       select p.chain, p.id from x402_payments p
       where p.settlement = 'unsettled' and p.updated_at < now() - interval '${unwatchedAfter}') w
     left join chain_heads h on h.chain = w.chain
     where h.seen_at is null or h.seen_at < now() - interval '${unwatchedAfter}'
     group by w.chain, h.seen_at order by w.chain`,
  );
  return rows;
}
