import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BitcoinFaultAct } from '../../bench/crash/bitcoin-plan.ts';
import { type FaultAct, planRound, type RoundPlan } from '../../bench/crash/plan.ts';
import { runRounds } from '../../bench/crash/run.ts';
import type { RoundResult } from '../../bench/crash/run-round.ts';
import { type CrashWorld, startCrashWorld } from '../../bench/crash/world.ts';

/** The short set that every change is held against; `npm run crash` plays as many as one likes. */
const rounds: readonly { seed: number; faults: FaultAct[]; onBitcoin?: BitcoinFaultAct[] }[] = [
  {
    seed: 1,
    faults: [
      { kind: 'kill', part: 'worker' },
      { kind: 'reorg', depth: 3 },
      { kind: 'kill', part: 'api' },
    ],
  },
  {
    seed: 2,
    faults: [
      { kind: 'kill', part: 'postgres' },
      { kind: 'rpc', trouble: { name: 'lag', blocks: 4 }, endpoints: [0], forMs: 2_000 },
    ],
  },
  {
    seed: 3,
    faults: [
      { kind: 'kill', part: 'temporal' },
      { kind: 'freeze', part: 'signer-1', forMs: 1_500 },
      { kind: 'reorg', depth: 2 },
    ],
    onBitcoin: [{ kind: 'reorg', depth: 2 }, { kind: 'node' }, { kind: 'door' }],
  },
  {
    seed: 4,
    faults: [
      { kind: 'kill', part: 'signer-2' },
      { kind: 'full', forMs: 1_500 },
      { kind: 'rpc', trouble: { name: 'drop', share: 0.5, seed: 1 }, endpoints: [0, 1], forMs: 2_000 },
    ],
  },
];

let world: CrashWorld;

beforeAll(async () => {
  world = await startCrashWorld({ bitcoin: true });
});
afterAll(() => world?.stop());

/** One after the other from half a second on, while payments are under way. */
const spread = <F extends object>(faults: readonly F[]): (F & { atMs: number })[] =>
  faults.map((fault, index) => ({ ...fault, atMs: 500 + index * 700 }));

function planOf({ seed, faults, onBitcoin }: (typeof rounds)[number]): RoundPlan {
  const plan = planRound(seed, { bitcoin: onBitcoin !== undefined });
  return {
    ...{ ...plan, faults: spread(faults) },
    bitcoin: plan.bitcoin && { ...plan.bitcoin, faults: spread(onBitcoin ?? []) },
  };
}

describe('payments of several coins and wallets on two chains, while everything is killed around them', () => {
  it('are each on the chain once or failed with a reason, within all limits, without a gap, to the wei and satoshi (F2 F22 F47)', {
    timeout: 900_000,
  }, async () => {
    const results: RoundResult[] = [];
    const late = await runRounds(world, {
      plans: rounds.map(planOf),
      inFlight: rounds.length,
      label: 'crash',
      signal: new AbortController().signal,
      onResult: (result) => results.push(result) > 0,
    });
    expect(results.flatMap(({ problems }) => problems)).toEqual([]);
    expect(late).toEqual([]);
    expect(results).toHaveLength(rounds.length);
    const killed = results.flatMap(({ kills }) => kills.map(({ part }) => part)).toSorted();
    expect(killed).toEqual(['api', 'postgres', 'signer-2', 'temporal', 'worker']);
    for (const stored of [results.flatMap((each) => each.stored), results.flatMap((each) => each.bitcoin)])
      expect(stored.some(({ status }) => status === 'confirmed')).toBe(true);
  });
});
