import { type PayeeKind, payee, payeeKinds } from '../../test/support/bitcoin-payees.ts';
import type { Asking, PlannedChange } from './asking.ts';
import { createRandom, type Random } from './random.ts';

/** Blocks that a reorganisation replaces at most. */
export const maxBitcoinReorgDepth = 2;
/** Blocks that make a payment final: one more than a reorganisation reaches. */
export const bitcoinConfirmations = maxBitcoinReorgDepth + 1;
/** Apart from the numbers that decide about everything else, so that a seed goes on meaning the same. */
const apart = 0xb7c;
/** Satoshis. */
const [smallestCoin, largestCoin] = [2_000_000, 60_000_000];
const [cheapest, dearest] = [1_000, 15_000_000];

export interface PlannedBitcoinPayment extends Asking {
  /** Which of the round's Bitcoin agents pays. */
  readonly agent: number;
  readonly amountSat: number;
  /** Somebody else's address, or one of the round's Bitcoin agents. */
  readonly to: string | number;
}

export type BitcoinFaultAct =
  /** The node, killed, comes back with its blocks and without what waited for one. */
  | { readonly kind: 'node' }
  /** The API in front of it. */
  | { readonly kind: 'door' }
  | { readonly kind: 'reorg'; readonly depth: number }
  /** Blocks take nothing: what was sent goes on waiting. */
  | { readonly kind: 'full'; readonly forMs: number };
export type PlannedBitcoinFault = BitcoinFaultAct & { readonly atMs: number };

/** What happens in a round on Bitcoin. */
export interface BitcoinPlan {
  readonly blockMs: number;
  /** Coins that each wallet begins with, in satoshis, and what its agent may spend in a day, if that is limited. */
  readonly agents: readonly { readonly coinsSat: readonly number[]; readonly limitSat: number | null }[];
  readonly payments: readonly PlannedBitcoinPayment[];
  readonly changes: readonly PlannedChange[];
  readonly faults: readonly PlannedBitcoinFault[];
}

/** @param withinMs faults strike until then, and payments are asked for until half a second before */
export function planBitcoin(seed: number, { withinMs }: { withinMs: number }): BitcoinPlan {
  const random = createRandom(seed ^ apart);
  const agentCount = random.int(2, 3);
  const payments = Array.from({ length: random.int(4, 10) }, () => planPayment(random, { agentCount, withinMs }));
  const agents = Array.from({ length: agentCount }, (_, agent) => {
    const total = payments.filter((each) => each.agent === agent).reduce((sum, { amountSat }) => sum + amountSat, 0);
    return {
      coinsSat: Array.from({ length: random.int(1, 4) }, () => random.int(smallestCoin, largestCoin)),
      limitSat: random.chance(0.3) ? Math.max(Math.floor((total * random.int(40, 100)) / 100), cheapest) : null,
    };
  });
  const changes = Array.from({ length: random.int(0, 4) }, () => ({
    atMs: random.int(200, withinMs),
    change: random.pick(['cancel', 'speed-up'] as const),
    pick: random.int(0, payments.length),
  }));
  const faults = Array.from({ length: random.int(1, 3) }, () => ({
    ...planFault(random),
    atMs: random.int(0, withinMs),
  }));
  return {
    blockMs: random.int(200, 700),
    agents,
    payments: payments.toSorted((a, b) => a.atMs - b.atMs),
    changes: changes.toSorted((a, b) => a.atMs - b.atMs),
    faults: faults.toSorted((a, b) => a.atMs - b.atMs),
  };
}

function planPayment(
  random: Random,
  { agentCount, withinMs }: { agentCount: number; withinMs: number },
): PlannedBitcoinPayment {
  const agent = random.int(0, agentCount - 1);
  const other = (agent + random.int(1, agentCount - 1)) % agentCount;
  return {
    atMs: random.int(0, withinMs - 500),
    agent,
    amountSat: random.chance(0.2) ? random.int(cheapest, 100_000) : random.int(100_000, dearest),
    to: random.chance(0.2) ? other : somebody(random),
    client: random.weighted([
      ['insists', 6],
      ['once', 2],
      ['repeats', 1],
      ['twice', 1],
    ]),
  };
}

function somebody(random: Random): string {
  const privateKey = Uint8Array.from({ length: 32 }, () => random.int(1, 255));
  // Below the order of the curve's group, which begins with ff.
  privateKey[0] = 1;
  return payee(random.pick<PayeeKind>(payeeKinds), privateKey);
}

function planFault(random: Random): BitcoinFaultAct {
  const kind = random.weighted([
    ['node', 3],
    ['door', 2],
    ['reorg', 3],
    ['full', 2],
  ] as const);
  if (kind === 'reorg') return { kind, depth: random.int(1, maxBitcoinReorgDepth) };
  if (kind === 'full') return { kind, forMs: random.int(500, 3_000) };
  return { kind };
}

/** A fault in a few words. */
export function describeBitcoinFault(fault: BitcoinFaultAct): string {
  switch (fault.kind) {
    case 'node':
    case 'door':
      return `kill the Bitcoin ${fault.kind}`;
    case 'reorg':
      return `Bitcoin reorg ${fault.depth}`;
    case 'full':
      return `Bitcoin full ${fault.forMs} ms`;
  }
}
