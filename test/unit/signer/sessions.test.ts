import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createSessionTable, type SessionTable } from '../../../signer/sessions.ts';

const START_MS = Date.UTC(2026, 0, 1);

describe('the runs that a signer has open', () => {
  let table: SessionTable;
  let closed: string[];
  let expired: { id: string; kind: string }[];
  const session = (id: string) => ({ close: () => void closed.push(id) });
  const openAndPark = (id: string, kind: 'keygen' | 'sign') => {
    table.open({ id, kind });
    table.park(id, session(id));
  };

  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS });
    closed = [];
    expired = [];
    table = createSessionTable({ now: () => new Date(), onExpired: (each) => void expired.push(each) });
  });
  afterEach(() => {
    table.stop();
    vi.useRealTimers();
  });

  it('are dropped by time when nobody goes on with them, each kind by its own', async () => {
    openAndPark('a', 'sign');
    openAndPark('b', 'keygen');
    await vi.advanceTimersByTimeAsync(30_000);
    expect(closed).toEqual([]);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(closed).toEqual(['a']);
    expect(expired).toEqual([{ id: 'a', kind: 'sign' }]);
    expect(() => table.take('a', 'sign')).toThrow(/is not open here: ended, expired/);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(closed).toEqual(['a', 'b']);
    expect([table.count('sign'), table.count('keygen')]).toEqual([0, 0]);
  });

  it('are thrown away when they end while a message is worked on, and not before', async () => {
    openAndPark('a', 'sign');
    const taken = table.take('a', 'sign');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(closed).toEqual([]); // its worker has it, and gives it back to nobody
    table.park('a', taken);
    expect(closed).toEqual(['a']);
    expect(() => table.take('a', 'sign')).toThrow(expect.objectContaining({ code: 'unknown_session' }));
  });

  it.each([
    ['sign', 256],
    ['keygen', 2],
  ] as const)('of kind %s are at most %i, and one more is told to come again', (kind, most) => {
    for (let i = 0; i < most; i++) openAndPark(`${i}`, kind);
    for (let i = 0; i < 3_000; i++) {
      expect(() => table.open({ id: `more-${i}`, kind })).toThrow(expect.objectContaining({ code: 'busy' }));
    }
    expect(table.count(kind)).toBe(most);
    // The other kind has its own room.
    openAndPark('other', kind === 'sign' ? 'keygen' : 'sign');
    table.end('0');
    openAndPark('more-0', kind);
    expect(closed).toEqual(['0']);
  });

  it('belong to one request at a time, and to the kind of run that they were opened for', () => {
    openAndPark('a', 'sign');
    expect(() => table.take('a', 'keygen')).toThrow(/session a is one of sign, not of keygen/);
    table.take('a', 'sign');
    expect(() => table.take('a', 'sign')).toThrow(/is working on another message/);
    expect(() => table.open({ id: 'a', kind: 'sign' })).toThrow(/was used before/);
    table.end('a');
    expect(() => table.open({ id: 'a', kind: 'keygen' })).toThrow(/was used before/);
  });

  it('are all closed when the signer stops', () => {
    openAndPark('a', 'sign');
    openAndPark('b', 'keygen');
    table.stop();
    expect(closed.toSorted()).toEqual(['a', 'b']);
  });
});
