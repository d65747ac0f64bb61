import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRest, type Rest } from '../../../shared/chain/endpoints/endpoint-rest.ts';
import type { Logger } from '../../../shared/log.ts';

describe('the rest of an endpoint that fails', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const lines: string[] = [];
  const create = (random: number): Rest => {
    lines.length = 0;
    const write = (_: unknown, text: string) => lines.push(text);
    return createRest({
      host: 'rpc.example',
      logger: { info: write, warn: write, error: write } as unknown as Logger,
      random: () => random,
    });
  };
  const fail = (rest: Rest, forMs?: number) =>
    rest.failed({ startedMs: performance.now(), kind: forMs ? 'limited' : 'down', forMs });

  it.each([
    [1, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
    [0, [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]],
  ])('doubles up to 30 s, and is shortened by chance by up to a half (%i)', (random, expected) => {
    const rest = create(random);
    const rests = expected.map(() => {
      fail(rest);
      const leftMs = rest.leftMs();
      vi.advanceTimersByTime(leftMs);
      expect(rest.leftMs()).toBe(0);
      return leftMs;
    });
    expect(rests).toEqual(expected);
    expect(lines).toEqual(['an endpoint of the chain fails']);
    rest.worked({ startedMs: performance.now() });
    fail(rest);
    expect(rest.leftMs()).toBe(expected[0]);
  });

  it('is as long as the endpoint wishes, where it says so', () => {
    const rest = create(0);
    fail(rest, 60_000);
    expect(rest.leftMs()).toBe(60_000);
  });

  it('counts requests that fail together once, and hears nothing from answers to earlier ones', () => {
    const rest = create(1);
    const startedMs = performance.now();
    vi.advanceTimersByTime(10);
    for (let request = 0; request < 20; request += 1) rest.failed({ startedMs, kind: 'down' });
    expect(rest.leftMs()).toBe(1_000);
    rest.worked({ startedMs });
    expect(rest.leftMs()).toBe(1_000);
    rest.worked({ startedMs: performance.now() });
    expect(rest.leftMs()).toBe(0);
    expect(lines).toEqual(['an endpoint of the chain fails', 'an endpoint of the chain works again']);
  });
});
