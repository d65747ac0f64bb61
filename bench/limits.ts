import { randomUUID } from 'node:crypto';
import type { Progress } from '../dev/progress.ts';
import { createAccount, updateAccount } from '../shared/db/accounts.ts';
import { createApiKey } from '../shared/db/api-keys.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { admitRequest, type Lease, releaseLease } from '../shared/db/request-limits.ts';
import type { RequestLimits } from '../shared/domain/plans.ts';
import { tidyTables } from './decisions.ts';
import { inParallel, type Throughput } from './parallel.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { type Durations, interleave, summarise, timed } from './samples.ts';
import { withApi } from './with-api.ts';

/** Requests under way at once, connections, and keys that share them. */
const width = 20;
/** Far more than a plan has, so that nothing is refused, and half of it in use: the search in it is a long one. */
const limits: RequestLimits = { perMinute: 10_000, perDay: 1_000_000, concurrent: 100 };
const withoutLeases: RequestLimits = { ...limits, concurrent: null };
const dayOnly: RequestLimits = { perMinute: null, perDay: 1_000_000, concurrent: null };
const used = 5_000;
const countAimMs = 1;

/** How much is measured. */
export interface LimitPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Counts, and requests through the api, with many at a time; fewer than what a key has left. */
  readonly requests: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullLimitPlan: LimitPlan = { rounds: 2_000, warmUpRounds: 100, requests: 4_000, limitMs: 40_000 };
export const quickLimitPlan: LimitPlan = { rounds: 200, warmUpRounds: 20, requests: 400, limitMs: 20_000 };

const names = {
  select: 'floor, select 1',
  count: 'count of a request: minute, day, at once',
  withoutLease: 'count of a request: minute, day',
  day: 'count of a request: day',
  refused: 'refusal of a request',
  release: 'place given back',
} as const;
const runs = {
  select: 'floor, select 1',
  oneKey: 'counts, places given back, 1 key',
  manyKeys: `counts, places given back, ${width} keys`,
  unlimited: `GET /agents, nothing limited, ${width} keys`,
  limited: `GET /agents, limited, ${width} keys`,
} as const;

interface LimitContext {
  readonly plan: LimitPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** Measures the count that every limited request pays, by itself and through an api process. */
export async function measureLimits(
  { appUrl, ownerUrl }: { appUrl: string; ownerUrl: string },
  { plan, progress, signal }: LimitContext,
): Promise<MeasuredPart> {
  const pool = createPool({ url: appUrl, max: width, application: 'purser-bench' });
  try {
    const { subjects, keys } = await progress.step('keys that are in use', () => makeKeys(pool));
    await tidyTables(ownerUrl);
    const oneByOne = await progress.step('counts one at a time, the floor in turn', () =>
      interleave(cases(pool), { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal }),
    );
    const durations = new Map([...oneByOne].map(([name, ms]) => [name, summarise(ms)]));
    const throughput = new Map<string, Throughput>();
    const bounds = { width, limitMs: plan.limitMs, signal };
    const run = (name: string, once: (lane: number) => Promise<unknown>) =>
      progress.step(name, async () => {
        // A lap that is not counted.
        await inParallel(({ lane }) => once(lane), { ...bounds, total: width });
        throughput.set(name, await inParallel(({ lane }) => once(lane), { ...bounds, total: plan.requests }));
      });
    await run(runs.select, () => pool.query('select 1'));
    await run(runs.oneKey, () => admitAndRelease(pool, subjects[0]!));
    await run(runs.manyKeys, (lane) => admitAndRelease(pool, subjects[lane]!));
    await withApi({ appUrl, progress }, async ({ baseUrl }) => {
      const get = (key: string) => getAgents({ baseUrl, key });
      await run(runs.unlimited, (lane) => get(keys.unlimited[lane]!));
      await run(runs.limited, (lane) => get(keys.limited[lane]!));
    });
    return { durations, throughput, ratios: ratiosOf({ durations, throughput }) };
  } finally {
    await pool.end();
  }
}

/** Limited ones, of which each has made requests before, and others. */
async function makeKeys(pool: Pool) {
  const make = async (isLimited: boolean) => {
    const accountId = await createAccount(pool, { name: 'bench', plan: 'enterprise' });
    const { perMinute, perDay, concurrent } = limits;
    const change = { requests_per_minute: perMinute, requests_per_day: perDay, concurrent_requests: concurrent };
    if (isLimited) await updateAccount(pool, { id: accountId, change });
    return createApiKey(pool, { accountId, name: 'bench', environment: 'sandbox' });
  };
  const every = (isLimited: boolean) => Promise.all(Array.from({ length: width }, () => make(isLimited)));
  const [limited, unlimited] = [await every(true), await every(false)];
  const subjects = limited.map(({ row }) => row.id);
  for (const subject of [...subjects, ...Object.values(alone)]) await fill(pool, subject);
  return { subjects, keys: { limited: limited.map(({ key }) => key), unlimited: unlimited.map(({ key }) => key) } };
}

/** Half of what a key may in a minute was in the last 50 seconds, the other half long ago. */
async function fill(pool: Pool, subject: string): Promise<void> {
  await pool.query(
    `with w as (
       insert into request_windows (subject, passed, slots, day, day_count, used_at)
       values ($1, $2::int, $2::int, (now() at time zone 'utc')::date, $3::int, now()) returning id, used_at)
     insert into request_slots (window_id, slot, at)
     select w.id, n, w.used_at - case when n < $2::int - $3::int then interval '5 minutes'
                                      else ($2::int - 1 - n) * interval '50 seconds' / $3::int end
     from w, generate_series(0, $2::int - 1) n`,
    [subject, limits.perMinute, used],
  );
}

/** Subjects of what is measured one at a time. */
const alone = {
  whole: 'key_alone_1',
  withoutLease: 'key_alone_2',
  day: 'key_alone_3',
  refused: 'key_alone_4',
} as const;

function cases(pool: Pool): (() => Promise<Durations>)[] {
  return [
    async () => ({ [names.select]: await timed(() => pool.query('select 1')) }),
    async () => {
      let lease: Lease | null = null;
      const ms = await timed(async () => {
        lease = await admit(pool, { subject: alone.whole, limited: limits });
      });
      return { [names.count]: ms, [names.release]: await timed(() => releaseLease(pool, lease!)) };
    },
    async () => {
      const asked = { subject: alone.withoutLease, limited: withoutLeases };
      return { [names.withoutLease]: await timed(() => admit(pool, asked)) };
    },
    async () => ({ [names.day]: await timed(() => admit(pool, { subject: alone.day, limited: dayOnly })) }),
    async () => {
      const asked = { subject: alone.refused, limits: { ...limits, perMinute: 1 }, holder: randomUUID() };
      return { [names.refused]: await timed(() => admitRequest(pool, asked)) };
    },
  ];
}

/** @throws where it is refused: what is measured is a request that passes */
async function admit(
  pool: Pool,
  { subject, limited }: { subject: string; limited: RequestLimits },
): Promise<Lease | null> {
  const { refusedBy, lease } = await admitRequest(pool, { subject, limits: limited, holder: randomUUID() });
  if (refusedBy !== null) throw new Error(`A request of ${subject} was to pass; it was refused by ${refusedBy}.`);
  return lease;
}

/** As the api does it for each request. */
async function admitAndRelease(pool: Pool, subject: string): Promise<void> {
  await releaseLease(pool, (await admit(pool, { subject, limited: limits }))!);
}

async function getAgents({ baseUrl, key }: { baseUrl: string; key: string }): Promise<void> {
  const response = await fetch(`${baseUrl}/api/v1/agents?page_size=1`, { headers: { 'X-API-Key': key } });
  const answer = await response.text();
  if (!response.ok) throw new Error(`GET /agents: HTTP ${response.status} ${answer}`);
}

function ratiosOf({ durations, throughput }: Omit<MeasuredPart, 'ratios'>): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const perSecond = (name: string) => throughput.get(name)!.perSecond;
  const value = p50(names.count) / countAimMs;
  return [
    { name: 'p50 of the count of a request / 1 ms', value, aim: 1, isMet: value <= 1 },
    { name: 'count of a request / select 1', value: p50(names.count) / p50(names.select) },
    { name: 'counts/s, 1 key / select 1/s', value: perSecond(runs.oneKey) / perSecond(runs.select) },
    {
      name: `counts/s, ${width} keys / select 1/s`,
      value: perSecond(runs.manyKeys) / perSecond(runs.select),
    },
    { name: 'GET /agents/s, limited / not limited', value: perSecond(runs.limited) / perSecond(runs.unlimited) },
  ];
}
