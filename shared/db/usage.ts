import type { UsageEntry } from '../domain/policy/usage.ts';
import { windowRanges } from '../domain/policy/window-ranges.ts';
import type { Queryable } from './pool.ts';

/**
 * What an agent has consumed in sliding windows that end at `now`, by token: open reservations at any age, settled
 * ones whose instant is after `now - window`. The cost does not grow with the number of payments.
 * @param exceptPaymentId a payment that is not to be counted against itself
 */
export async function readUsage(
  db: Queryable,
  {
    agentId,
    windowsMs,
    now,
    exceptPaymentId,
  }: { agentId: string; windowsMs: readonly number[]; now: Date; exceptPaymentId?: string | undefined },
): Promise<UsageEntry[]> {
  if (windowsMs.length === 0) return [];
  const windows = windowsMs.map((windowMs) => {
    const startMs = now.getTime() - windowMs;
    return { windowMs, startMs, ...windowRanges(startMs) };
  });
  const ranges = windows.flatMap(({ windowMs, ranges }) => ranges.map((range) => ({ windowMs, ...range })));
  const { rows } = await db.query<{
    window_ms: string;
    token: string;
    atoms: string;
    count: number;
    oldest: Date | null;
  }>(
    `with open as (
       select o.token, o.atoms - coalesce(r.atoms, 0) as atoms, o.count - (r.atoms is not null)::int as count
       from usage_open o left join reservations r
         on r.payment_id = $2 and r.state = 'reserved' and r.token = o.token and r.agent_id = o.agent_id
       where o.agent_id = $1),
     windows as (
       select * from unnest($3::bigint[], $4::timestamptz[], $5::timestamptz[]) as w (window_ms, starts, edge_ends)),
     ranges as (
       select * from unnest($6::bigint[], $7::smallint[], $8::bigint[], $9::bigint[])
         as r (window_ms, level, from_slot, to_slot))
     select w.window_ms, o.token,
            o.atoms + coalesce(whole.atoms, 0) + coalesce(edge.atoms, 0) as atoms,
            (o.count + coalesce(whole.count, 0) + coalesce(edge.count, 0))::int as count,
            (select r.instant from reservations r
             where r.agent_id = $1 and r.token = o.token and r.state = 'settled' and r.instant > w.starts
             order by r.instant limit 1) as oldest
     from windows w cross join open o
     left join lateral (
       select sum(s.atoms) as atoms, sum(s.count) as count
       from ranges r cross join lateral (
         -- An aggregate of its own for each range keeps the planner on the index, whatever it believes about sizes.
         select sum(u.atoms) as atoms, sum(u.count) as count from usage_totals u
         where u.agent_id = $1 and u.token = o.token and u.level = r.level
           and u.slot >= r.from_slot and u.slot < r.to_slot) s
       where r.window_ms = w.window_ms) whole on true
     left join lateral (
       select sum(r.atoms) as atoms, count(*) as count from reservations r
       where r.agent_id = $1 and r.token = o.token and r.state = 'settled'
         and r.instant > w.starts and r.instant < w.edge_ends) edge on true`,
    [
      agentId,
      exceptPaymentId ?? null,
      windows.map(({ windowMs }) => windowMs),
      windows.map(({ startMs }) => new Date(startMs).toISOString()),
      windows.map(({ edgeEndMs }) => new Date(edgeEndMs).toISOString()),
      ranges.map(({ windowMs }) => windowMs),
      ranges.map(({ level }) => level),
      ranges.map(({ fromSlot }) => fromSlot),
      ranges.map(({ toSlot }) => toSlot),
    ],
  );
  return rows.map((row) => ({
    windowMs: Number(row.window_ms),
    token: row.token,
    atoms: BigInt(row.atoms),
    count: row.count,
    oldest: row.oldest,
  }));
}
