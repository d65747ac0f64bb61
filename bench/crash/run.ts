import { setTimeout as delay } from 'node:timers/promises';
import { isAlive } from '../../dev/signals.ts';
import type { PartName } from '../../test/support/own-stack.ts';
import { type CrashAgent, prepareAgents } from './agents.ts';
import { type BitcoinAgent, prepareBitcoinAgents } from './bitcoin-agents.ts';
import type { RoundPlan } from './plan.ts';
import { finishRound, type RoundResult, strikeRound } from './run-round.ts';
import type { CrashWorld } from './world.ts';
import { prepareBuyers } from './x402-buyers.ts';
import type { Buyer } from './x402-load.ts';

/** Rounds whose agents are made at once, in a pause between faults. */
const roundsPrepared = 10;
const parts: readonly PartName[] = [
  'postgres',
  'temporal',
  'signer-1',
  'signer-2',
  'signer-3',
  'api',
  'api-2',
  'worker',
  'worker-2',
];
const pauseMs = 50;

export interface RunOptions {
  readonly plans: readonly RoundPlan[];
  /** Rounds at most whose payments are waited for while the next one strikes. */
  readonly inFlight: number;
  /** Names the agents of this run apart from those of others on the same stack. */
  readonly label: string;
  readonly signal: AbortSignal;
  /** Called once for each round, when it is over. @returns whether to go on */
  readonly onResult: (result: RoundResult) => boolean;
}

/**
 * Plays one round after the other. What is still pending of one sees the faults of the next, as in a bad hour; nothing
 * of a round waits for the one before unless `inFlight` is 1.
 * @returns what became wrong after its round had been checked, a sentence each
 */
export async function runRounds(
  world: CrashWorld,
  { plans, inFlight, label, signal, onResult }: RunOptions,
): Promise<string[]> {
  const open = new Set<Promise<void>>();
  const done: RoundResult[] = [];
  let goesOn = true;
  let [prepared, buyers, onBitcoin]: [CrashAgent[][], Buyer[], BitcoinAgent[][]] = [[], [], []];
  const finish = async (struck: Awaited<ReturnType<typeof strikeRound>>) => {
    const result = await finishRound(world, struck);
    done.push(result);
    goesOn = onResult(result) && goesOn;
  };
  for (const [index, plan] of plans.entries()) {
    if (!goesOn || signal.aborted) break;
    if (index % roundsPrepared === 0) {
      await untilUp(world);
      const next = plans.slice(index, index + roundsPrepared);
      prepared = await prepareAgents(world, { plans: next, label: `${label}-${index}` });
      buyers = await prepareBuyers(world, { plans: next, label: `${label}-${index}` });
      const bitcoinPlans = next.map(({ bitcoin }) => bitcoin);
      onBitcoin = await prepareBitcoinAgents(world, { plans: bitcoinPlans, label: `${label}-${index}` });
    }
    await untilUp(world);
    const struck = await strikeRound(world, {
      number: index + 1,
      plan,
      agents: prepared[index % roundsPrepared]!,
      buyer: buyers[index % roundsPrepared]!,
      bitcoinAgents: onBitcoin[index % roundsPrepared]!,
    });
    const finished = finish(struck).finally(() => open.delete(finished));
    open.add(finished);
    while (open.size >= inFlight) await Promise.race(open);
  }
  await Promise.all(open);
  return findLate(world, done);
}

/** What was sent although nothing was pending any more. */
async function findLate({ chain }: CrashWorld, done: readonly RoundResult[]): Promise<string[]> {
  const found = await Promise.all(
    done.flatMap(({ round, counts }) =>
      round.agents.map(async ({ id, address }) => {
        const before = counts.get(id);
        const count = await chain.transactionCount(address);
        if (before === undefined || count === before) return [];
        return [
          `Round ${round.number} (seed ${round.plan.seed}): ${address} had ${before} transactions and has ${count}.`,
        ];
      }),
    ),
  );
  return found.flat();
}

/** A fault needs something to strike: each part is there, though it may not be ready yet. */
async function untilUp({ stack }: CrashWorld): Promise<void> {
  while (!parts.every((part) => isAlive(stack.pid(part)))) await delay(pauseMs);
}
