import { describe, expect, it } from 'vitest';
import { addRecovery, describeRecovery, measureRecovery } from '../../../bench/crash/recovery.ts';
import type { RoundResult } from '../../../bench/crash/run-round.ts';
import type { Kill } from '../../../bench/crash/strike.ts';

const start = Date.parse('2026-01-01T00:00:00.000Z');
const at = (ms: number) => new Date(start + ms).toISOString();

function measure(kills: Kill[], payments: [from: number, to: number, status: 'confirmed' | 'failed'][]) {
  const stored = payments.map(([from, to, status]) => ({ status, created_at: at(from), updated_at: at(to) }));
  return measureRecovery({ kills, stored } as unknown as RoundResult);
}

describe('the time to recover from a kill', () => {
  it('ends with the next payment that is confirmed, and with the last one that was pending', () => {
    const found = measure(
      [{ part: 'worker-2', at: start + 1_000 }],
      [
        [0, 900, 'confirmed'],
        [500, 1_400, 'failed'],
        [600, 9_000, 'confirmed'],
        [1_500, 2_500, 'confirmed'],
      ],
    );
    expect(found).toEqual({ next: { worker: [1_500] }, all: { worker: [8_000] } });
  });

  it('is unknown where nothing was left to confirm', () => {
    expect(measure([{ part: 'api', at: start + 1_000 }], [[0, 900, 'confirmed']])).toEqual({ next: {}, all: {} });
  });

  it('adds up by what was killed', () => {
    const sum = addRecovery({ next: { api: [1] }, all: {} }, { next: { api: [2], signer: [3] }, all: { api: [4] } });
    expect(sum).toEqual({ next: { api: [1, 2], signer: [3] }, all: { api: [4] } });
    expect(describeRecovery(sum)).toHaveLength(2);
  });
});
