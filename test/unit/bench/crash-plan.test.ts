import { describe, expect, it } from 'vitest';
import { confirmations, endpointCount, faultNames, planRound, strikesMs } from '../../../bench/crash/plan.ts';
import { createRandom, roundSeed } from '../../../bench/crash/random.ts';

const seeds = Array.from({ length: 200 }, (_, round) => roundSeed(7, round));

describe('the plan of a round', () => {
  it('follows from its seed alone', () => {
    for (const seed of seeds.slice(0, 20)) expect(planRound(seed)).toEqual(planRound(seed));
    expect(new Set(seeds.map((seed) => JSON.stringify(planRound(seed)))).size).toBe(seeds.length);
  });

  it('holds its bounds', () => {
    for (const { agents, payments, faults, changes, x402 } of seeds.map((seed) => planRound(seed))) {
      expect([2, 3, 4]).toContain(agents.length);
      expect(payments.length).toBeGreaterThanOrEqual(5);
      expect(payments.length).toBeLessThanOrEqual(15);
      expect([1, 2, 3, 4]).toContain(faults.length);
      for (const { atMs } of [...payments, ...faults, ...changes, ...x402.payments])
        expect(atMs).toBeLessThanOrEqual(strikesMs);
      const asked = x402.payments.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
      expect(x402.budgetMinor).toBeGreaterThanOrEqual(asked / 2);
      expect(x402.budgetMinor).toBeLessThanOrEqual(asked);
      for (const { agent, to } of payments) {
        expect(agent).toBeLessThan(agents.length);
        if (typeof to === 'number') expect(to).not.toBe(agent);
      }
      for (const fault of faults) {
        if (fault.kind === 'reorg') expect(fault.depth).toBeLessThan(confirmations);
        if (fault.kind === 'rpc') for (const index of fault.endpoints) expect(index).toBeLessThan(endpointCount);
      }
    }
  });

  it('has every fault sooner or later, and only those that are asked for', () => {
    const namesOf = (only: string[]) =>
      new Set(
        seeds
          .flatMap((seed) => planRound(seed, { only }).faults)
          .flatMap((fault) => (fault.kind === 'kill' ? [fault.kind, fault.part] : [fault.kind])),
      );
    expect([...namesOf([])].toSorted()).toEqual(faultNames.toSorted());
    expect([...namesOf(['reorg', 'signer-2'])].toSorted()).toEqual(['kill', 'reorg', 'signer-2']);
  });
});

describe('random numbers', () => {
  it('are spread evenly, also for seeds that lie close together', () => {
    const counts = [0, 0, 0, 0];
    for (let seed = 0; seed < 4_000; seed += 1) counts[createRandom(seed).int(0, 3)]! += 1;
    for (const count of counts) expect(count).toBeGreaterThan(900);
  });
});
