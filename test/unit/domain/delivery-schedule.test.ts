import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type DeliverySchedule,
  deliverySchedule,
  nextAttemptAt,
  readRetryAfter,
  reasonToDisable,
} from '../../../shared/domain/delivery-schedule.ts';

const now = new Date('2026-03-01T12:00:00.000Z');
const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000] as const;
const in_ = (ms: number) => new Date(now.getTime() + ms);
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const instant = fc.date({ min: new Date('2020-01-01'), max: new Date('2100-01-01'), noInvalidDate: true });
const waited = (next: Date | undefined) => next!.getTime() - now.getTime();

describe('the schedule of attempts', () => {
  it('is at once, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h', () => {
    const plain = Array.from({ length: 7 }, (_, index) =>
      waited(nextAttemptAt(deliverySchedule, { attempt: index + 1, now, random: 0.5, retryAfter: undefined })),
    );
    expect(plain).toEqual([5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour]);
    expect(deliverySchedule.delaysMs[0]).toBe(0);
  });

  it('ends with the eighth, whatever the receiver asks for', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 8, max: 100 }),
        random,
        fc.option(instant, { nil: undefined }),
        (attempt, r, at) => {
          expect(nextAttemptAt(deliverySchedule, { attempt, now, random: r, retryAfter: at })).toBeUndefined();
        },
      ),
    );
  });

  it('varies each delay by a tenth at most, to both sides', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), random, (attempt, r) => {
        const ms = waited(nextAttemptAt(deliverySchedule, { attempt, now, random: r, retryAfter: undefined }));
        const delay = deliverySchedule.delaysMs[attempt]!;
        expect(ms).toBeGreaterThanOrEqual(delay * 0.9);
        expect(ms).toBeLessThanOrEqual(delay * 1.1);
      }),
    );
    const at = (r: number) =>
      waited(nextAttemptAt(deliverySchedule, { attempt: 2, now, random: r, retryAfter: undefined }));
    expect(at(0)).toBe(4.5 * minute);
    expect(at(1 - 1e-9)).toBe(5.5 * minute);
  });

  it('F41: is never before the receiver wants it, and never waits longer than a day because of it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), random, instant, (attempt, r, retryAfter) => {
        const next = nextAttemptAt(deliverySchedule, { attempt, now, random: r, retryAfter })!;
        const without = nextAttemptAt(deliverySchedule, { attempt, now, random: r, retryAfter: undefined })!;
        expect(next.getTime()).toBeGreaterThanOrEqual(without.getTime());
        expect(next.getTime()).toBeGreaterThanOrEqual(Math.min(retryAfter.getTime(), now.getTime() + day));
        expect(waited(next)).toBeLessThanOrEqual(Math.max(day, waited(without)));
      }),
    );
  });

  it('holds whatever the delays are', () => {
    const delays = fc.array(fc.integer({ min: 0, max: day }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(delays, random, (delaysMs, r) => {
        const schedule: DeliverySchedule = { ...deliverySchedule, delaysMs };
        let attempt = 1;
        while (nextAttemptAt(schedule, { attempt, now, random: r, retryAfter: undefined })) attempt += 1;
        expect(attempt).toBe(delaysMs.length);
      }),
    );
  });
});

describe('Retry-After', () => {
  it('is a number of seconds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 9_999_999_999 }), (s) => {
        expect(readRetryAfter(String(s), { now })).toEqual(in_(s * second));
      }),
    );
    expect(readRetryAfter(' 120 ', { now })).toEqual(in_(2 * minute));
  });

  it('is a date of HTTP, in any of its three forms', () => {
    fc.assert(
      fc.property(instant, (date) => {
        const whole = new Date(Math.floor(date.getTime() / second) * second);
        expect(readRetryAfter(whole.toUTCString(), { now })).toEqual(whole);
      }),
    );
    const same = new Date('1994-11-06T08:49:37Z');
    for (const text of ['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])
      expect(readRetryAfter(text, { now })).toEqual(same);
  });

  it.each([
    undefined,
    '',
    'soon',
    '-1',
    '+5',
    '1.5',
    '1e3',
    '0x10',
    '99999999999',
    '5, 10',
    '2026-03-01T13:00:00Z',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 EST',
    'Sun, 32 Nov 1994 28:49:37 GMT',
    'Xyz, 06 Qqq 1994 08:49:37 GMT',
    'NaN',
    'Infinity',
  ])('that is nonsense says nothing: %j', (text) => {
    expect(readRetryAfter(text, { now })).toBeUndefined();
  });

  it('says nothing or a date, whatever is sent', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.array(fc.string())), (text) => {
        const read = readRetryAfter(text, { now });
        expect(read === undefined || !Number.isNaN(read.getTime())).toBe(true);
      }),
    );
  });

  it('that came several times means the latest', () => {
    expect(readRetryAfter(['5', 'nonsense', '60', '7'], { now })).toEqual(in_(minute));
  });
});

describe('a webhook is disabled', () => {
  const ask = (statusCode: number | null, failingSince: Date) =>
    reasonToDisable(deliverySchedule, { statusCode, failingSince, now });

  it('F41: at once when it answers 410', () => {
    expect(ask(410, now)).toMatch(/410 Gone/);
  });

  it('when it has failed for five days, to the millisecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 20 * day }), fc.constantFrom(null, 301, 404, 429, 500), (ms, status) => {
        expect(ask(status, in_(-ms)) !== undefined).toBe(ms >= 5 * day);
      }),
    );
    expect(ask(500, in_(-5 * day))).toBe('No attempt has succeeded since 2026-02-24T12:00:00.000Z.');
    expect(ask(500, in_(1 - 5 * day))).toBeUndefined();
  });
});
