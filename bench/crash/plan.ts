import { type Address, getAddress, toHex } from 'viem';
import type { PartName } from '../../test/support/own-stack.ts';
import type { Asking, PlannedChange } from './asking.ts';
import { type BitcoinPlan, planBitcoin } from './bitcoin-plan.ts';
import { createRandom, type Random } from './random.ts';
import { planX402, type X402Plan } from './x402-plan.ts';

/** When faults stop. Payments are asked for until half a second before. */
export const strikesMs = 3_000;
/** Blocks that a reorganisation replaces at most. */
export const maxReorgDepth = 3;
/** Blocks that make a payment final: one more than a reorganisation reaches. */
export const confirmations = maxReorgDepth + 1;
/** RPC endpoints in front of the one chain. */
export const endpointCount = 3;
const mostPayments = 15;

export const tokens = { ETH: { decimals: 18 }, USDC: { decimals: 6 }, BTC: { decimals: 8 } } as const;
export type TokenSymbol = keyof typeof tokens;

/** As in `POST /policies`, without its agent. */
export type PlannedPolicy =
  | { readonly type: 'spending_limit'; readonly rules: { readonly daily_limit: string; readonly token: TokenSymbol } }
  | {
      readonly type: 'velocity_control';
      readonly rules: { readonly max_count: number; readonly window_seconds: number };
    };

export interface PlannedPayment extends Asking {
  /** Which of the round's agents pays. */
  readonly agent: number;
  readonly token: TokenSymbol;
  readonly amount: string;
  /** Somebody else, or one of the round's agents. */
  readonly to: Address | number;
}

/** What goes wrong, and for how long where it is not over at once. */
export type FaultAct =
  | { readonly kind: 'kill'; readonly part: PartName }
  /** The process stands still: it misses what it is asked meanwhile. */
  | { readonly kind: 'freeze'; readonly part: PartName; readonly forMs: number }
  | {
      readonly kind: 'rpc';
      readonly trouble: RpcTrouble;
      readonly endpoints: readonly number[];
      readonly forMs: number;
    }
  | { readonly kind: 'reorg'; readonly depth: number }
  /** The node forgets the transactions that wait for a block. */
  | { readonly kind: 'forget' }
  /** Blocks have no room: what was sent goes on waiting. */
  | { readonly kind: 'full'; readonly forMs: number }
  /** Blocks cost more than what was offered: it is dropped. */
  | { readonly kind: 'fees'; readonly baseFeeGwei: number; readonly forMs: number }
  /** An operator terminates the workflow of a payment or session: of those there are so far the one at this place, modulo. */
  | { readonly kind: 'terminate'; readonly pick: number };

export type RpcTrouble =
  | { readonly name: 'drop'; readonly share: number; readonly seed: number }
  | { readonly name: 'delay'; readonly minMs: number; readonly maxMs: number; readonly seed: number }
  | { readonly name: 'lag'; readonly blocks: number }
  | { readonly name: 'down' | 'hang' | 'limited' | 'broken' };

export type PlannedFault = FaultAct & { readonly atMs: number };

/** Everything that is decided beforehand about a round; it follows from the seed. */
export interface RoundPlan {
  readonly seed: number;
  readonly blockMs: number;
  /** Policies of each agent. */
  readonly agents: readonly (readonly PlannedPolicy[])[];
  readonly payments: readonly PlannedPayment[];
  readonly changes: readonly PlannedChange[];
  readonly faults: readonly PlannedFault[];
  readonly x402: X402Plan;
  /** Undefined where the round has no payments on Bitcoin. */
  readonly bitcoin: BitcoinPlan | undefined;
}

const killable: readonly (readonly [PartName, number])[] = [
  ['api', 2],
  ['api-2', 1],
  ['worker', 2],
  ['worker-2', 2],
  ['signer-1', 1],
  ['signer-2', 1],
  ['signer-3', 1],
  ['temporal', 2],
  ['postgres', 2],
];

/** How often each kind of fault is chosen. */
const faultWeights = { kill: 7, rpc: 4, reorg: 3, freeze: 2, terminate: 2, full: 2, fees: 1, forget: 1 } as const;
/** What `--only` may name: kinds of faults, and parts to be killed. */
export const faultNames: readonly string[] = [...Object.keys(faultWeights), ...killable.map(([part]) => part)];

/**
 * @param only names of {@link faultNames}; empty: all of them
 * @param bitcoin whether there are payments on Bitcoin as well, and what goes wrong there
 */
export function planRound(
  seed: number,
  { only = [], bitcoin = false }: { only?: readonly string[]; bitcoin?: boolean } = {},
): RoundPlan {
  const random = createRandom(seed);
  const agentCount = random.int(2, 4);
  const payments = Array.from({ length: random.int(5, mostPayments) }, () => planPayment(random, agentCount));
  const agents = Array.from({ length: agentCount }, (_, agent) =>
    planPolicies(
      random,
      payments.filter((each) => each.agent === agent),
    ),
  );
  const faults = Array.from({ length: random.int(1, 4) }, () => ({
    ...planFault(random, only),
    atMs: random.int(0, strikesMs),
  }));
  const changes = Array.from({ length: random.int(0, 4) }, () => ({
    atMs: random.int(200, strikesMs),
    change: random.pick(['cancel', 'speed-up'] as const),
    pick: random.int(0, mostPayments),
  }));
  return {
    seed,
    blockMs: random.int(100, 500),
    changes: changes.toSorted((a, b) => a.atMs - b.atMs),
    agents,
    payments: payments.toSorted((a, b) => a.atMs - b.atMs),
    faults: faults.toSorted((a, b) => a.atMs - b.atMs),
    x402: planX402(seed, { withinMs: strikesMs - 500 }),
    bitcoin: bitcoin ? planBitcoin(seed, { withinMs: strikesMs }) : undefined,
  };
}

function planPayment(random: Random, agentCount: number): PlannedPayment {
  const agent = random.int(0, agentCount - 1);
  const other = (agent + random.int(1, agentCount - 1)) % agentCount;
  const token = random.chance(0.5) ? 'ETH' : 'USDC';
  return {
    atMs: random.int(0, strikesMs - 500),
    agent,
    token,
    amount: token === 'ETH' ? `0.${random.int(1, 6)}` : `${random.int(1, 400)}.${random.int(1, 99)}`,
    to: random.chance(0.2) ? other : somebody(random),
    client: random.weighted([
      ['insists', 6],
      ['once', 2],
      ['repeats', 1],
      ['twice', 1],
    ]),
  };
}

function somebody(random: Random): Address {
  const parts = Array.from({ length: 5 }, () => toHex(random.int(1, 2 ** 32 - 1), { size: 4 }).slice(2));
  return getAddress(`0x${parts.join('')}`);
}

/** Limits near what the agent is about to send: some of it passes, some is denied, some of it is close. */
function planPolicies(random: Random, payments: readonly PlannedPayment[]): PlannedPolicy[] {
  const policies: PlannedPolicy[] = [];
  for (const token of ['USDC', 'ETH'] as const) {
    if (!random.chance(0.35)) continue;
    const total = payments.filter((each) => each.token === token).reduce((sum, { amount }) => sum + Number(amount), 0);
    const daily_limit = Math.max((total * random.int(40, 100)) / 100, 0.1).toFixed(token === 'ETH' ? 1 : 2);
    policies.push({ type: 'spending_limit', rules: { daily_limit, token } });
  }
  if (random.chance(0.25)) {
    const max_count = Math.max(payments.length - random.int(0, 2), 1);
    policies.push({ type: 'velocity_control', rules: { max_count, window_seconds: 3600 } });
  }
  return policies;
}

function planFault(random: Random, only: readonly string[]): FaultAct {
  const parts = killable.filter(([part]) => only.includes(part));
  const wanted = Object.entries(faultWeights).filter(
    ([kind]) => only.length === 0 || only.includes(kind) || (kind === 'kill' && parts.length > 0),
  ) as [keyof typeof faultWeights, number][];
  switch (random.weighted(wanted)) {
    case 'kill':
      return { kind: 'kill', part: random.weighted(parts.length > 0 ? parts : killable) };
    case 'freeze': {
      const part = random.pick(['signer-1', 'signer-2', 'signer-3'] as const);
      return { kind: 'freeze', part, forMs: random.int(200, 2_500) };
    }
    case 'reorg':
      return { kind: 'reorg', depth: random.int(1, maxReorgDepth) };
    case 'terminate':
      return { kind: 'terminate', pick: random.int(0, mostPayments) };
    case 'forget':
      return { kind: 'forget' };
    case 'full':
      return { kind: 'full', forMs: random.int(500, 3_000) };
    case 'fees':
      return { kind: 'fees', baseFeeGwei: random.int(2, 20), forMs: random.int(300, 3_000) };
    case 'rpc':
      return planTrouble(random);
  }
}

function planTrouble(random: Random): FaultAct {
  const seed = random.int(0, 2 ** 31);
  const trouble = random.pick<RpcTrouble>([
    { name: 'drop', share: random.int(2, 9) / 10, seed },
    { name: 'delay', minMs: random.int(10, 200), maxMs: random.int(200, 1_500), seed },
    { name: 'lag', blocks: random.int(1, 8) },
    { name: 'down' },
    { name: 'hang' },
    { name: 'limited' },
    { name: 'broken' },
  ]);
  const first = random.int(0, endpointCount - 1);
  const count = random.weighted([
    [1, 5],
    [2, 2],
    [endpointCount, 2],
  ]);
  const endpoints = Array.from({ length: count }, (_, index) => (first + index) % endpointCount);
  return { kind: 'rpc', trouble, endpoints, forMs: random.int(300, 3_000) };
}

/** A fault in a few words. */
export function describeFault(fault: FaultAct): string {
  switch (fault.kind) {
    case 'kill':
      return `kill ${fault.part}`;
    case 'freeze':
      return `freeze ${fault.part} ${fault.forMs} ms`;
    case 'reorg':
      return `reorg ${fault.depth}`;
    case 'terminate':
    case 'forget':
      return fault.kind;
    case 'full':
      return `full ${fault.forMs} ms`;
    case 'fees':
      return `fees ${fault.baseFeeGwei} gwei ${fault.forMs} ms`;
    case 'rpc':
      return `rpc ${fault.trouble.name} ${fault.endpoints.join('+')} ${fault.forMs} ms`;
  }
}
