import type { RequestLimits } from '../domain/plans.ts';
import type { Queryable } from './pool.ts';

/** How long a lease lives that nobody renews: so long a request of a process that has died counts as under way. */
const leaseSeconds = 20;

/** What was said of a request. Times are whole seconds, rounded up. */
export interface Admission {
  /** The limit that is reached: of several, the one that lasts longest; null where the request passes. */
  readonly refusedBy: 'minute' | 'day' | 'concurrent' | null;
  /** After which a request passes; null where this one does. */
  readonly retryAfterSeconds: number | null;
  /** Null where no limit of that kind is set. */
  readonly minute: Allowance | null;
  readonly day: Allowance | null;
  /** Null where no limit of concurrent requests is set, and where the request is refused. */
  readonly lease: Lease | null;
}

/** What is left of a limit. */
export interface Allowance {
  readonly limit: number;
  /** Requests that would still pass now, after this one. */
  readonly remaining: number;
  /** Until some of what is used comes back: the oldest request of the minute, or the whole day. */
  readonly resetSeconds: number;
}

/** A request that is under way. */
export interface Lease {
  readonly windowId: string;
  readonly slot: number;
  /** Names the request: a UUID. */
  readonly holder: string;
}

interface AdmissionRow {
  readonly window_id: string;
  readonly refused_by: Admission['refusedBy'];
  readonly retry_after: number | null;
  readonly minute_left: number | null;
  readonly minute_reset: number | null;
  readonly day_left: number | null;
  readonly day_reset: number | null;
  readonly lease_slot: number | null;
}

/**
 * Counts a request of a subject, unless one of its limits is reached: then nothing is changed. Exact over any number of
 * processes, by the database's clock; a limit that changes counts what has passed before. One statement, and a
 * transaction of its own that does not wait for the disk: a crash of Postgres may forget the last half second.
 * @param limits at least one of them set
 * @param holder a UUID that names the request
 */
export async function admitRequest(
  db: Queryable,
  { subject, limits, holder }: { subject: string; limits: RequestLimits; holder: string },
): Promise<Admission> {
  const { perMinute, perDay, concurrent } = limits;
  const { rows } = await db.query<AdmissionRow>('select * from admit_request($1, $2, $3, $4, $5, $6)', [
    subject,
    perMinute,
    perDay,
    concurrent,
    holder,
    leaseSeconds,
  ]);
  const row = rows[0]!;
  return {
    refusedBy: row.refused_by,
    retryAfterSeconds: row.retry_after,
    minute: allowance(perMinute, row.minute_left, row.minute_reset),
    day: allowance(perDay, row.day_left, row.day_reset),
    lease: row.lease_slot === null ? null : { windowId: row.window_id, slot: row.lease_slot, holder },
  };
}

function allowance(limit: number | null, remaining: number | null, resetSeconds: number | null): Allowance | null {
  return limit === null ? null : { limit, remaining: remaining!, resetSeconds: resetSeconds! };
}

/** A request is over; nothing happens where its lease has expired and is somebody else's now. */
export async function releaseLease(db: Queryable, { windowId, slot, holder }: Lease): Promise<void> {
  await db.query(
    `update request_leases set expires_at = '-infinity' where window_id = $1 and slot = $2 and holder = $3`,
    [windowId, slot, holder],
  );
}

/** Keeps leases from expiring whose requests are still under way; one that is given back meanwhile stays so. */
export async function renewLeases(db: Queryable, leases: readonly Lease[]): Promise<void> {
  await db.query(
    `update request_leases l set expires_at = clock_timestamp() + $4 * interval '1 second'
     from unnest($1::bigint[], $2::int[], $3::uuid[]) as held (window_id, slot, holder)
     where l.window_id = held.window_id and l.slot = held.slot and l.holder = held.holder
       and l.expires_at > '-infinity'`,
    [
      leases.map(({ windowId }) => windowId),
      leases.map(({ slot }) => slot),
      leases.map(({ holder }) => holder),
      leaseSeconds,
    ],
  );
}

/**
 * Forgets subjects of which nothing has passed for two days, at most `limit` of them. Call it again while it returns
 * `limit`.
 * @returns how many were forgotten
 */
export async function deleteUnusedWindows(db: Queryable, { limit }: { limit: number }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `with unused as (
       delete from request_windows where id in (
         select id from request_windows where used_at < now() - interval '2 days' limit $1 for update skip locked)
       returning id),
     slots as (delete from request_slots where window_id in (select id from unused)),
     leases as (delete from request_leases where window_id in (select id from unused))
     select count(*)::int as count from unused`,
    [limit],
  );
  return rows[0]!.count;
}
