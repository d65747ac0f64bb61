import { setTimeout as delay } from 'node:timers/promises';
import { parseGwei } from 'viem';
import { isAlive } from '../../dev/signals.ts';
import type { PartName } from '../../test/support/own-stack.ts';
import type { RpcFaults } from '../../test/support/rpc-proxy.ts';
import type { PlannedFault, RpcTrouble } from './plan.ts';
import { createRandom } from './random.ts';
import type { CrashWorld } from './world.ts';

/** A process that was killed, and when (Unix time in milliseconds). */
export interface Kill {
  readonly part: PartName;
  readonly at: number;
}

/**
 * Has every fault of a round strike at its instant, and heals what does not heal by itself.
 * @param ids of the workflows that there are by now
 * @returns the processes that were killed; one that was down already cannot be
 */
export async function strike(
  world: CrashWorld,
  { faults, ids, from }: { faults: readonly PlannedFault[]; ids: () => readonly string[]; from: number },
): Promise<Kill[]> {
  const kills: Kill[] = [];
  await Promise.all(
    faults.map(async (fault) => {
      await delay(Math.max(from + fault.atMs - Date.now(), 0));
      switch (fault.kind) {
        case 'kill':
          if (signal(world, fault.part, 'SIGKILL')) kills.push({ part: fault.part, at: Date.now() });
          return;
        case 'freeze':
          signal(world, fault.part, 'SIGSTOP');
          await delay(fault.forMs);
          return void signal(world, fault.part, 'SIGCONT');
        case 'reorg':
          return world.chain.reorg(fault.depth);
        case 'forget':
          return world.chain.emptyPool();
        case 'full':
          world.chain.setRoom(false);
          await delay(fault.forMs);
          return world.chain.setRoom(true);
        case 'fees':
          world.chain.setBaseFee(parseGwei(String(fault.baseFeeGwei)));
          await delay(fault.forMs);
          return world.chain.setBaseFee();
        case 'terminate':
          return terminate(world, { ids: ids(), pick: fault.pick });
        case 'rpc': {
          const proxies = fault.endpoints.map((index) => world.proxies[index]!);
          for (const proxy of proxies) proxy.set(faultsOf(fault.trouble));
          await delay(fault.forMs);
          for (const proxy of proxies) proxy.set({});
          return;
        }
      }
    }),
  );
  return kills;
}

/** @returns whether there was a process */
function signal({ stack }: CrashWorld, part: PartName, name: NodeJS.Signals): boolean {
  const pid = stack.pid(part);
  if (!isAlive(pid)) return false;
  process.kill(pid, name);
  return true;
}

/** As an operator does at the console. A workflow that has ended, or a Temporal that is away, refuses; so be it. */
async function terminate(
  { temporal }: CrashWorld,
  { ids, pick }: { ids: readonly string[]; pick: number },
): Promise<void> {
  if (ids.length === 0) return;
  const handle = temporal.workflow.getHandle(ids[pick % ids.length]!);
  await temporal.withDeadline(Date.now() + 2_000, () => handle.terminate('by an operator')).catch(() => {});
}

function faultsOf(trouble: RpcTrouble): RpcFaults {
  switch (trouble.name) {
    case 'drop':
      return { dropAnswers: trouble.share, random: shareOf(trouble.seed) };
    case 'delay':
      return { delayMs: [trouble.minMs, trouble.maxMs], random: shareOf(trouble.seed) };
    case 'lag':
      return { lagBlocks: trouble.blocks };
    case 'down':
      return { down: true };
    case 'hang':
      return { hang: true };
    case 'limited':
      return { status: 429, retryAfter: '1' };
    case 'broken':
      return { status: 503 };
  }
}

function shareOf(seed: number): () => number {
  const random = createRandom(seed);
  return () => random.int(0, 2 ** 31) / (2 ** 31 + 1);
}
