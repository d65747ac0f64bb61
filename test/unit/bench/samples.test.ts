import { describe, expect, it } from 'vitest';
import { interleave, summarise } from '../../../bench/samples.ts';

const never = new AbortController().signal;

describe('a summary of samples', () => {
  it('gives values that were measured, by nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(summarise(values)).toEqual({ n: 100, p50: 50, p95: 95, p99: 99, min: 1, max: 100 });
  });

  it('of one sample is that sample', () => {
    expect(summarise([7])).toEqual({ n: 1, p50: 7, p95: 7, p99: 7, min: 7, max: 7 });
  });

  it('of nothing is refused', () => {
    expect(() => summarise([])).toThrow(/no sample/);
  });
});

describe('interleaved cases', () => {
  it('take turns, and the warm-up is not counted', async () => {
    const order: string[] = [];
    const take = (name: string) => async () => ({ [name]: order.push(name) });
    const found = await interleave([take('a'), take('b')], { warmUp: 1, rounds: 2, limitMs: 60_000, signal: never });
    expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
    expect(found).toEqual(
      new Map([
        ['a', [3, 5]],
        ['b', [4, 6]],
      ]),
    );
  });

  it('end when their time is over, with at least one round', async () => {
    const found = await interleave([async () => ({ a: 1 })], { warmUp: 0, rounds: 1_000, limitMs: -1, signal: never });
    expect(found.get('a')).toEqual([1]);
  });

  it('end when they are stopped', async () => {
    const ending = new AbortController();
    const stopSoon = async () => {
      ending.abort(new Error('enough'));
      return { a: 1 };
    };
    const running = interleave([stopSoon], { warmUp: 0, rounds: 2, limitMs: 60_000, signal: ending.signal });
    await expect(running).rejects.toThrow('enough');
  });
});
