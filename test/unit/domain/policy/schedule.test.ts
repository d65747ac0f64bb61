import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { schedule } from '../../../../shared/domain/policy/schedule.ts';
import type { PolicyContext } from '../../../../shared/domain/policy/types.ts';
import { contextOf, words } from './support.ts';

interface Hours {
  start: number;
  end: number;
}

const rules = (input: unknown) => schedule.rules(words).parse(input);
const at = (instant: string | number): PolicyContext => contextOf({ now: new Date(instant) });
const checks = (input: unknown, instant: string | number) => schedule.judge(rules(input), at(instant)).checks;
const isOpen = (input: unknown, instant: string | number) => checks(input, instant).every(({ passed }) => passed);

const newYork = 'America/New_York';
const lordHowe = 'Australia/Lord_Howe';
const kathmandu = 'Asia/Kathmandu';
const chatham = 'Pacific/Chatham';

describe('a schedule', () => {
  it.each([
    ['New York springs forward over the hour 2', newYork, '2026-03-08T06:59:59.999Z', 'Sun 01:59'],
    ['New York springs forward over the hour 2', newYork, '2026-03-08T07:00:00.000Z', 'Sun 03:00'],
    ['New York falls back into the hour 1', newYork, '2026-11-01T05:59:59.999Z', 'Sun 01:59'],
    ['New York falls back into the hour 1', newYork, '2026-11-01T06:00:00.000Z', 'Sun 01:00'],
    ['Lord Howe springs forward by half an hour', lordHowe, '2026-10-03T15:29:59.999Z', 'Sun 01:59'],
    ['Lord Howe springs forward by half an hour', lordHowe, '2026-10-03T15:30:00.000Z', 'Sun 02:30'],
    ['Lord Howe falls back by half an hour', lordHowe, '2026-04-04T14:59:59.999Z', 'Sun 01:59'],
    ['Lord Howe falls back by half an hour', lordHowe, '2026-04-04T15:00:00.000Z', 'Sun 01:30'],
    ['Chatham springs forward at 2:45', chatham, '2026-09-26T13:59:59.999Z', 'Sun 02:44'],
    ['Chatham springs forward at 2:45', chatham, '2026-09-26T14:00:00.000Z', 'Sun 03:45'],
    ['Chatham falls back at 3:45', chatham, '2026-04-04T13:59:59.999Z', 'Sun 03:44'],
    ['Chatham falls back at 3:45', chatham, '2026-04-04T14:00:00.000Z', 'Sun 02:45'],
    ['Kathmandu is at a quarter to', kathmandu, '2026-03-01T18:14:59.999Z', 'Sun 23:59'],
    ['Kathmandu is at a quarter to', kathmandu, '2026-03-01T18:15:00.000Z', 'Mon 00:00'],
  ])('reads the clocks: %s (%s, %s is %s)', (_what, timezone, instant, shown) => {
    const [check] = checks({ timezone, allowed_hours: { start: 0, end: 24 } }, instant);
    expect([check?.attempted, check?.passed]).toEqual([shown, true]);
    const hour = Number(shown.slice(4, 6));
    expect(isOpen({ timezone, allowed_hours: { start: hour, end: hour + 1 } }, instant)).toBe(true);
    const other = (hour + 1) % 24;
    expect(isOpen({ timezone, allowed_hours: { start: other, end: other + 1 } }, instant)).toBe(false);
  });

  it('skips an hour that a day does not have, and opens twice as long in one that it has twice', () => {
    const minutes = (from: string, hours: Hours) =>
      Array.from({ length: 24 * 60 }, (_, minute) => Date.parse(from) + minute * 60_000).filter((instant) =>
        isOpen({ timezone: newYork, allowed_hours: hours }, instant),
      ).length;
    expect(minutes('2026-03-08T05:00:00Z', { start: 2, end: 3 })).toBe(0);
    expect(minutes('2026-11-01T04:00:00Z', { start: 1, end: 2 })).toBe(120);
  });

  it('counts the hours past midnight to the day on which they start', () => {
    const fridayNight = { timezone: 'UTC', allowed_hours: { start: 22, end: 6 }, allowed_days: [5] };
    for (const [instant, open] of [
      ['2026-03-06T05:59:59.999Z', false], // Friday morning is of Thursday's night
      ['2026-03-06T21:59:59.999Z', false],
      ['2026-03-06T22:00:00.000Z', true],
      ['2026-03-07T05:59:59.999Z', true],
      ['2026-03-07T06:00:00.000Z', false],
      ['2026-03-07T22:00:00.000Z', false],
    ] as const)
      expect([instant, isOpen(fridayNight, instant)]).toEqual([instant, open]);
    const sundayNight = { ...fridayNight, allowed_days: [7] };
    expect(isOpen(sundayNight, '2026-03-02T05:59:59.999Z')).toBe(true);
    expect(isOpen(sundayNight, '2026-03-01T05:59:59.999Z')).toBe(false);
  });

  it('takes 0 and 7 for Sunday, and merges repeats', () => {
    expect(rules({ timezone: 'UTC', allowed_days: [7, 0, 1, 7, 1] })).toEqual({
      timezone: 'UTC',
      allowed_days: [0, 1],
    });
    for (const day of [0, 7]) {
      expect(isOpen({ timezone: 'UTC', allowed_days: [day] }, '2026-03-01T12:00:00Z')).toBe(true);
      expect(isOpen({ timezone: 'UTC', allowed_days: [day] }, '2026-03-02T12:00:00Z')).toBe(false);
    }
  });

  it('tells in plain words what it allows and what the clocks show', () => {
    const input = { timezone: newYork, allowed_hours: { start: 9, end: 17 }, allowed_days: [1, 2] };
    expect(checks(input, '2026-03-04T23:05:00Z')).toEqual(
      ['allowed_hours', 'allowed_days'].map((rule) => ({
        rule,
        limit: '9-17 h, Mon Tue (America/New_York)',
        attempted: 'Wed 18:05',
        used: null,
        remaining: null,
        resets_at: null,
        passed: false,
      })),
    );
  });

  it.each([
    ['a time zone alone', { timezone: 'UTC' }],
    ['no time zone', { allowed_days: [1] }],
    ['an offset for a zone', { timezone: '+05:45', allowed_days: [1] }],
    ['a zone that is none', { timezone: 'Mars/Olympus', allowed_days: [1] }],
    ['an empty zone', { timezone: '', allowed_days: [1] }],
    ['no days', { timezone: 'UTC', allowed_days: [] }],
    ['a day 8', { timezone: 'UTC', allowed_days: [8] }],
    ['half a day', { timezone: 'UTC', allowed_days: [1.5] }],
    ['hours that end as they start', { timezone: 'UTC', allowed_hours: { start: 9, end: 9 } }],
    ['an hour 24 to start with', { timezone: 'UTC', allowed_hours: { start: 24, end: 1 } }],
    ['an hour 0 to end with', { timezone: 'UTC', allowed_hours: { start: 1, end: 0 } }],
    ['hours without an end', { timezone: 'UTC', allowed_hours: { start: 1 } }],
    ['an unknown member of hours', { timezone: 'UTC', allowed_hours: { start: 1, end: 2, x: 1 } }],
  ])('refuses %s', (_what, input) => {
    expect(schedule.rules(words).safeParse(input).success).toBe(false);
  });

  it('agrees with a reference that knows the rules of the zones by heart', () => {
    const hour = fc.record({ start: fc.integer({ min: 0, max: 23 }), end: fc.integer({ min: 1, max: 24 }) });
    const hours = hour.filter(({ start, end }) => start !== end);
    const days = fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 8 });
    const zone = fc.constantFrom(...(Object.keys(zones) as (keyof typeof zones)[]));
    const instant = fc.oneof(
      fc.integer({ min: Date.UTC(2010), max: Date.UTC(2035) }),
      // Around the changes.
      fc
        .tuple(
          fc.integer({ min: 2010, max: 2034 }),
          fc.constantFrom(3, 4, 9, 10, 11),
          fc.integer({ min: 0, max: 863_999 }),
        )
        .map(([year, month, tenths]) => sunday({ year, month, nth: 1 }) + (tenths - 432_000) * 1000),
    );
    fc.assert(
      fc.property(
        zone,
        instant,
        hours,
        days,
        fc.constantFrom('hours', 'days', 'both'),
        (timezone, when, h, d, which) => {
          const allowed_hours = which === 'days' ? undefined : h;
          const allowed_days = which === 'hours' ? undefined : d;
          const expected = referenceIsOpen({ timezone, when, hours: allowed_hours, days: allowed_days });
          expect(isOpen({ timezone, allowed_hours, allowed_days }, when)).toBe(expected);
        },
      ),
      { numRuns: 3000 },
    );
  });
});

/** Unix time of a Sunday's first instant in UTC; nth from 1, or -1 for the last. */
function sunday({ year, month, nth }: { year: number; month: number; nth: number }): number {
  const all = Array.from({ length: 31 }, (_, index) => new Date(Date.UTC(year, month - 1, index + 1))).filter(
    (day) => day.getUTCMonth() === month - 1 && day.getUTCDay() === 0,
  );
  return all.at(nth > 0 ? nth - 1 : nth)!.getTime();
}

const hourMs = 3_600_000;
const year = (when: number) => new Date(when).getUTCFullYear();

/** Offsets in minutes by the zones' laws since 2008. Source: IANA tz database, files northamerica, australasia, asia. */
const zones = {
  'America/New_York': (when: number) => {
    const from = sunday({ year: year(when), month: 3, nth: 2 }) + 7 * hourMs;
    const to = sunday({ year: year(when), month: 11, nth: 1 }) + 6 * hourMs;
    return when >= from && when < to ? -240 : -300;
  },
  'Australia/Lord_Howe': (when: number) => {
    const to = sunday({ year: year(when), month: 4, nth: 1 }) - 9 * hourMs;
    const from = sunday({ year: year(when), month: 10, nth: 1 }) - 8.5 * hourMs;
    return when >= to && when < from ? 630 : 660;
  },
  'Pacific/Chatham': (when: number) => {
    const to = sunday({ year: year(when), month: 4, nth: 1 }) - 10 * hourMs;
    const from = sunday({ year: year(when), month: 9, nth: -1 }) - 10 * hourMs;
    return when >= to && when < from ? 765 : 825;
  },
  'Asia/Kathmandu': () => 345,
  UTC: () => 0,
};

/** Lays out the windows of the days around the instant on the wall clock, and looks whether one has it. */
function referenceIsOpen({
  timezone,
  when,
  hours = { start: 0, end: 24 },
  days = [0, 1, 2, 3, 4, 5, 6],
}: {
  timezone: keyof typeof zones;
  when: number;
  hours?: Hours | undefined;
  days?: number[] | undefined;
}): boolean {
  const wallHours = (when + zones[timezone](when) * 60_000) / hourMs;
  const today = Math.floor(wallHours / 24);
  return [today - 1, today].some((day) => {
    const weekday = new Date(day * 24 * hourMs).getUTCDay();
    if (!days.map((each) => each % 7).includes(weekday)) return false;
    const start = day * 24 + hours.start;
    const end = day * 24 + hours.end + (hours.end < hours.start ? 24 : 0);
    return wallHours >= start && wallHours < end;
  });
}
