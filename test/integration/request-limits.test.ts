import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import {
  type Admission,
  admitRequest,
  deleteUnusedWindows,
  type Lease,
  releaseLease,
  renewLeases,
} from '../../shared/db/request-limits.ts';
import type { RequestLimits } from '../../shared/domain/plans.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type DatabaseClock, installClock } from '../support/database-clock.ts';

const connections = 12;
const minuteMs = 60_000;
const leaseMs = 20_000;
const unlimited: RequestLimits = { perMinute: null, perDay: null, concurrent: null };

let database: TestDatabase;
let clock: DatabaseClock;
let pool: Pool;
let subjects = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  clock = await installClock(database);
  pool = createPool({ url: database.url, max: connections, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await clock?.close();
  await database?.drop();
});

function newSubject(): string {
  subjects += 1;
  return `key_${subjects}`;
}

const ask = (subject: string, limits: Partial<RequestLimits>): Promise<Admission> =>
  admitRequest(pool, { subject, limits: { ...unlimited, ...limits }, holder: randomUUID() });

async function askMany(subject: string, limits: Partial<RequestLimits>, count: number): Promise<Admission[]> {
  return Promise.all(Array.from({ length: count }, () => ask(subject, limits)));
}

const passed = (answers: readonly Admission[]) => answers.filter(({ refusedBy }) => refusedBy === null).length;

/** What a person with pen and paper would keep: every request that has passed, and every lease. */
class Ledger {
  nowMs = Date.parse('2026-03-01T12:00:00.000Z');
  /** Of requests that passed while the minute was limited. */
  private readonly minute: number[] = [];
  private readonly all: number[] = [];
  private leases: { lease: Lease; untilMs: number }[] = [];

  /** What the service has to say now. */
  expected({ perMinute, perDay, concurrent }: RequestLimits) {
    const recent = this.minute.filter((at) => at > this.nowMs - minuteMs);
    const dayOf = (ms: number) => Math.floor(ms / 86_400_000);
    const today = this.all.filter((at) => dayOf(at) === dayOf(this.nowMs)).length;
    const underWay = this.leases.filter(({ untilMs }) => untilMs > this.nowMs).length;
    const secondsUntil = (ms: number) => Math.ceil((ms - this.nowMs) / 1000);
    const endOfDay = secondsUntil((dayOf(this.nowMs) + 1) * 86_400_000);
    const waits = [
      { by: 'minute', left: perMinute === null ? 1 : perMinute - recent.length, wait: this.untilPass(perMinute) },
      { by: 'day', left: perDay === null ? 1 : perDay - today, wait: endOfDay },
      { by: 'concurrent', left: concurrent === null ? 1 : concurrent - underWay, wait: 1 },
    ].filter(({ left }) => left <= 0);
    const longest = waits.toSorted((a, b) => b.wait - a.wait)[0];
    const passing = longest ? 0 : 1;
    const left = (limit: number, used: number) => Math.max(0, limit - used - passing);
    return {
      refusedBy: longest?.by ?? null,
      retryAfterSeconds: longest?.wait ?? null,
      minuteRemaining: perMinute === null ? null : left(perMinute, recent.length),
      dayRemaining: perDay === null ? null : left(perDay, today),
    };
  }

  note({ refusedBy, lease }: Admission, { perMinute }: RequestLimits): void {
    if (refusedBy !== null) return;
    this.all.push(this.nowMs);
    if (perMinute !== null) this.minute.push(this.nowMs);
    if (lease) this.leases.push({ lease, untilMs: this.nowMs + leaseMs });
  }

  /** Seconds until so few of the minute are left that one more passes. */
  private untilPass(perMinute: number | null): number {
    if (perMinute === null) return 0;
    const blocking = this.minute.at(-perMinute);
    return blocking === undefined ? 0 : Math.ceil((blocking + minuteMs - this.nowMs) / 1000);
  }

  /** The lease that is meant by any number, if one has not expired: others may be somebody else's by now. */
  lease(index: number): Lease | undefined {
    const live = this.leases.filter(({ untilMs }) => untilMs > this.nowMs);
    return live[index % Math.max(1, live.length)]?.lease;
  }

  released(lease: Lease): void {
    this.leases = this.leases.filter((each) => each.lease !== lease);
  }

  renewed(lease: Lease): void {
    for (const each of this.leases) if (each.lease === lease) each.untilMs = this.nowMs + leaseMs;
  }
}

const limit = (max: number) => fc.option(fc.integer({ min: 1, max }), { freq: 4 });
const limitsStep = fc.record({ perMinute: limit(9), perDay: limit(40), concurrent: limit(4) });
const step = fc.oneof(
  { weight: 12, arbitrary: fc.constant({ do: 'ask' as const }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(
        fc.integer({ min: 0, max: 9_000 }),
        fc.constantFrom(59_999, 60_000, 60_001, 19_999, 20_000, 1),
        fc.integer({ min: 0, max: 100_000_000 }),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('limit' as const), limits: limitsStep }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('release' as const), index: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('renew' as const), index: fc.nat() }) },
);

describe('the count of requests', () => {
  it('says of any sequence of requests, pauses and changes of limits what pen and paper say', async () => {
    await fc.assert(
      fc.asyncProperty(limitsStep, fc.array(step, { minLength: 20, maxLength: 120 }), async (first, steps) => {
        const subject = newSubject();
        const ledger = new Ledger();
        let limits: RequestLimits = first;
        for (const each of steps) {
          await clock.set(new Date(ledger.nowMs));
          if (each.do === 'wait') ledger.nowMs += each.ms;
          if (each.do === 'limit') limits = each.limits;
          const lease = 'index' in each ? ledger.lease(each.index) : undefined;
          if (lease && each.do === 'release') {
            await releaseLease(pool, lease);
            ledger.released(lease);
          }
          if (lease && each.do === 'renew') {
            await renewLeases(pool, [lease]);
            ledger.renewed(lease);
          }
          if (each.do !== 'ask') continue;
          const expected = ledger.expected(limits);
          const answer = await ask(subject, limits);
          ledger.note(answer, limits);
          expect({
            refusedBy: answer.refusedBy,
            retryAfterSeconds: answer.retryAfterSeconds,
            minuteRemaining: answer.minute?.remaining ?? null,
            dayRemaining: answer.day?.remaining ?? null,
          }).toEqual(expected);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('lets exactly so many of those pass that come at the same moment, also the first ones ever', async () => {
    for (const limits of [
      { perMinute: 7 },
      { perDay: 7 },
      { concurrent: 7 },
      { perMinute: 9, perDay: 7, concurrent: 8 },
    ])
      expect([limits, passed(await askMany(newSubject(), limits, 60))]).toEqual([limits, 7]);
  });

  it('refuses without a trace: whoever goes on asking is let in no later', async () => {
    const subject = newSubject();
    const start = await clock.now();
    await askMany(subject, { perMinute: 5 }, 5);
    for (const seconds of [1, 30, 58]) {
      await clock.set(new Date(start.getTime() + seconds * 1000));
      const answers = await askMany(subject, { perMinute: 5 }, 10);
      expect(answers.map(({ retryAfterSeconds }) => retryAfterSeconds)).toEqual(Array(10).fill(60 - seconds));
    }
    await clock.set(new Date(start.getTime() + minuteMs - 1));
    expect((await ask(subject, { perMinute: 5 })).retryAfterSeconds).toBe(1);
    await clock.set(new Date(start.getTime() + minuteMs));
    expect(passed(await askMany(subject, { perMinute: 5 }, 20))).toBe(5);
  });

  it('counts what has passed when a limit is raised, lowered, and raised again', async () => {
    const subject = newSubject();
    expect(passed(await askMany(subject, { perMinute: 20 }, 30))).toBe(20);
    expect(passed(await askMany(subject, { perMinute: 5 }, 5))).toBe(0);
    expect(passed(await askMany(subject, { perMinute: 50 }, 60))).toBe(30);
    await clock.advance(30_000);
    expect((await ask(subject, { perMinute: 5 })).retryAfterSeconds).toBe(30);
    expect(passed(await askMany(subject, { perMinute: 60 }, 20))).toBe(10);
    await clock.advance(30_000);
    expect(passed(await askMany(subject, { perMinute: 60 }, 80))).toBe(50);
  });

  it('stands still when the clock is put back a little, and begins anew when it is put back far', async () => {
    const subject = newSubject();
    const start = await clock.now();
    expect(passed(await askMany(subject, { perMinute: 3 }, 5))).toBe(3);
    await clock.set(new Date(start.getTime() - 30_000));
    expect(await ask(subject, { perMinute: 3 })).toMatchObject({ refusedBy: 'minute', retryAfterSeconds: 60 });
    await clock.set(new Date(start.getTime() - 3_600_000));
    expect(passed(await askMany(subject, { perMinute: 3 }, 5))).toBe(3);
    await clock.advance(59_999);
    expect(passed(await askMany(subject, { perMinute: 3 }, 5))).toBe(0);
    await clock.advance(1);
    expect(passed(await askMany(subject, { perMinute: 3 }, 5))).toBe(3);
  });

  it('leaves alone a lease that is given back, or that is another request’s by now', async () => {
    const subject = newSubject();
    const given = (await ask(subject, { concurrent: 1 })).lease!;
    await releaseLease(pool, given);
    await renewLeases(pool, [given]);
    const expired = (await ask(subject, { concurrent: 1 })).lease!;
    await clock.advance(leaseMs);
    const next = (await ask(subject, { concurrent: 1 })).lease!;
    expect(next.slot).toBe(expired.slot);
    await releaseLease(pool, expired);
    expect((await ask(subject, { concurrent: 1 })).refusedBy).toBe('concurrent');
    await clock.advance(leaseMs - 1);
    await renewLeases(pool, [expired]);
    await clock.advance(1);
    expect((await ask(subject, { concurrent: 1 })).refusedBy).toBe(null);
  });

  it('forgets whoever was not there for two days, with all that it knows of them, and nobody else', async () => {
    const [old, recent] = [newSubject(), newSubject()];
    const limits = { perMinute: 3, perDay: 3, concurrent: 3 };
    const now = Date.now();
    await clock.set(new Date(now - 49 * 3_600_000));
    await askMany(old, limits, 3);
    await clock.set(new Date(now - 47 * 3_600_000));
    await askMany(recent, limits, 3);
    while ((await deleteUnusedWindows(pool, { limit: 2 })) === 2);
    const left = async (table: string) =>
      (await pool.query(`select from ${table} where window_id in (select id from request_windows)`)).rowCount;
    const all = async (table: string) => (await pool.query(`select from ${table}`)).rowCount;
    const { rows } = await pool.query('select subject from request_windows');
    expect(rows.map(({ subject }) => subject)).toEqual([recent]);
    for (const table of ['request_slots', 'request_leases'])
      expect([await left(table), await all(table)]).toEqual([3, 3]);
  });
});
