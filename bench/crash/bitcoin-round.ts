import { setTimeout as delay } from 'node:timers/promises';
import { isAlive } from '../../dev/signals.ts';
import type { BitcoinAgent } from './bitcoin-agents.ts';
import type { CrashBitcoin } from './bitcoin-chain.ts';
import { planAskedBitcoin, readTakenCoins } from './bitcoin-outcome.ts';
import type { BitcoinPlan, PlannedBitcoinFault } from './bitcoin-plan.ts';
import { checkBitcoin } from './check-bitcoin.ts';
import { type Asked, ask, change } from './load.ts';
import { readStored, type StoredPayment } from './stored.ts';
import type { CrashWorld } from './world.ts';

/** For so long nobody answers where the API in front of the node was killed. */
const doorMs = 1_000;

/** What a round does on Bitcoin, beside everything else. */
export interface BitcoinRound {
  readonly plan: BitcoinPlan;
  readonly agents: readonly BitcoinAgent[];
  readonly asked: readonly Asked[];
  /** Fulfilled once every client has its answer, with what was wrong with answers. */
  readonly answered: Promise<readonly string[]>;
  /** Fulfilled when the last fault is over. */
  readonly struck: Promise<void>;
}

/** Begins it. */
export function beginBitcoin(
  world: CrashWorld,
  { plan, agents, from }: { plan: BitcoinPlan; agents: readonly BitcoinAgent[]; from: number },
): BitcoinRound {
  const asked = planAskedBitcoin(plan, agents);
  const label = `change ${agents[0]!.id}`;
  world.bitcoin!.setBlockTime(plan.blockMs);
  const answered = Promise.all([
    ask(world, { asked, from }),
    change(world, { changes: plan.changes, asked, from, label }),
  ]).then(([, wrong]) => wrong);
  answered.catch(() => {});
  const struck = Promise.all(
    plan.faults.map(async (fault) => {
      await delay(Math.max(from + fault.atMs - Date.now(), 0));
      await strikeBitcoin(world, { bitcoin: world.bitcoin!, fault });
    }),
  ).then(() => {});
  return { plan, agents, asked, answered, struck };
}

async function strikeBitcoin(
  { stack }: CrashWorld,
  { bitcoin, fault }: { bitcoin: CrashBitcoin; fault: PlannedBitcoinFault },
): Promise<void> {
  switch (fault.kind) {
    case 'node': {
      const pid = stack.pid('btcd');
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
      return;
    }
    case 'door':
      await stack.bitcoin!.closeDoor();
      await delay(doorMs);
      return stack.bitcoin!.openDoor();
    case 'reorg':
      return bitcoin.reorg(fault.depth);
    case 'full':
      bitcoin.setRoom(false);
      await delay(fault.forMs);
      return bitcoin.setRoom(true);
  }
}

/** Holds what the service says against the chain, once nothing is pending any more. */
export async function finishBitcoin(
  world: CrashWorld,
  { agents, asked, answered }: BitcoinRound,
): Promise<{ problems: readonly string[]; stored: readonly StoredPayment[] }> {
  const wrong = await answered.catch((error: Error) => [`A client had no answer: ${error.message}`]);
  await world.bitcoin!.passFinal();
  const stored = await readStored(world, agents);
  const wallets = new Map(
    await Promise.all(agents.map(async ({ id, address }) => [id, await world.bitcoin!.wallet(address)] as const)),
  );
  const taken = await readTakenCoins(world.pool, agents);
  return { problems: [...wrong, ...checkBitcoin({ agents, asked, stored, wallets, taken })], stored };
}
