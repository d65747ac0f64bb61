import { describe, expect, it } from 'vitest';
import { createSignerHealthRecord, type Pair } from '../../../signer/health.ts';

function start() {
  let nowMs = 1_000_000;
  const record = createSignerHealthRecord({ now: () => new Date(nowMs) });
  return {
    record,
    pass: (ms: number) => {
      nowMs += ms;
    },
    first: () => record.pairs()[0]!,
  };
}

/** Time from a failure until the signer is asked again, as long as nothing else happens. */
function intervalMs({ record, pass }: ReturnType<typeof start>): number {
  for (let ms = 0; ms <= 120_000; ms += 500) {
    if (record.dueForProbe().length > 0) return ms;
    pass(500);
  }
  return Number.POSITIVE_INFINITY;
}

describe('the record of who is well', () => {
  it('lets all pairs take turns, each with a beginner of its own', () => {
    const { first } = start();
    const turns = Array.from({ length: 6 }, first);
    expect(new Set(turns.slice(0, 3).map(String)).size).toBe(3);
    expect(new Set(turns.slice(0, 3).map(([beginner]) => beginner)).size).toBe(3);
    expect(turns.slice(3)).toEqual(turns.slice(0, 3));
  });

  it('puts the pair without a signer that failed first, at once, until it says that it is well', () => {
    const { record, first } = start();
    record.failed(2);
    for (let i = 0; i < 4; i += 1) expect(first()).not.toContain(2);
    expect(record.suspicion([1, 2])).toBeGreaterThan(0);
    expect(record.suspicion([3, 1])).toBe(0);
    record.failed(3);
    expect(record.suspicion([2, 3])).toBeGreaterThan(record.suspicion([3, 1]));
    for (let i = 0; i < 4; i += 1) expect(String(record.pairs()[2])).toBe('2,3');
    record.succeeded(2);
    for (let i = 0; i < 4; i += 1) expect(first()).toEqual([1, 2]);
  });

  it('rather uses two that were late than one that did not answer, and does not forget that for being late again', () => {
    const { record, first } = start();
    record.late(1);
    record.late(2);
    record.failed(3);
    for (let i = 0; i < 4; i += 1) expect(first()).toEqual([1, 2]);
    record.late(3);
    for (let i = 0; i < 4; i += 1) expect(first()).toEqual([1, 2]);
    record.succeeded(3);
    for (let i = 0; i < 4; i += 1) expect(first()).toContain(3);
  });

  it('gives a signer out for a probe once an interval, also while it goes on failing', () => {
    const { record, pass } = start();
    record.failed(1);
    expect(record.dueForProbe()).toEqual([]);
    for (let i = 0; i < 5; i += 1) {
      pass(1_999);
      expect(record.dueForProbe()).toEqual([]);
      pass(1);
      expect(record.dueForProbe()).toEqual([1]);
      expect(record.dueForProbe()).toEqual([]);
      record.failed(1);
    }
    record.succeeded(1);
    pass(60_000);
    expect(record.dueForProbe()).toEqual([]);
  });

  it('waits twice as long after each relapse, up to a minute, and forgets relapses once it has signed', () => {
    const world = start();
    const { record } = world;
    const fall = () => {
      record.failed(3);
      const ms = intervalMs(world);
      record.succeeded(3);
      return ms;
    };
    expect(Array.from({ length: 7 }, fall)).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    record.signed([1, 2] as Pair);
    expect(fall()).toBe(60_000);
    record.signed([2, 3]);
    expect(fall()).toBe(2_000);
    record.failed(3);
    record.signed([2, 3]); // late: it was found slow while it signed
    record.failed(3);
    expect(intervalMs(world)).toBe(4_000);
  });
});
