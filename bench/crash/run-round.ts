import { setTimeout as delay } from 'node:timers/promises';
import type { CrashAgent } from './agents.ts';
import type { BitcoinAgent } from './bitcoin-agents.ts';
import { type BitcoinRound, beginBitcoin, finishBitcoin } from './bitcoin-round.ts';
import { checkBooks } from './check-books.ts';
import { checkRound } from './check-round.ts';
import { checkX402 } from './check-x402.ts';
import { type Asked, acceptedIds, ask, change, planAsked } from './load.ts';
import { maxReorgDepth, type RoundPlan, strikesMs } from './plan.ts';
import { readStored, type StoredPayment } from './stored.ts';
import { type Kill, strike } from './strike.ts';
import type { CrashWorld } from './world.ts';
import { type AskedX402, askX402, type Buyer, deleteSession, planAskedX402, x402Ids } from './x402-load.ts';
import { countOpen, readSession, type StoredX402 } from './x402-outcome.ts';

/**
 * A payment that is pending for longer after the last fault of its round is a fault itself. Recovery takes half a minute
 * at most on an idle machine; on a busy one, and under the faults of the rounds after, it takes longer.
 */
const settleWithinMs = 300_000;
const lookMs = 100;

export interface Round {
  readonly number: number;
  readonly plan: RoundPlan;
  readonly agents: readonly CrashAgent[];
  readonly buyer: Buyer;
  /** None where the plan has nothing on Bitcoin. */
  readonly bitcoinAgents: readonly BitcoinAgent[];
}

/** How a round went. */
export interface RoundResult {
  readonly round: Round;
  /** What must not be, a sentence each. */
  readonly problems: readonly string[];
  readonly stored: readonly StoredPayment[];
  readonly bitcoin: readonly StoredPayment[];
  readonly x402: readonly StoredX402[];
  readonly kills: readonly Kill[];
  /** Transactions of each agent's wallet, by the agent's id. */
  readonly counts: ReadonlyMap<string, number>;
  readonly ms: number;
}

/** A round whose faults are over; what is left is to wait for its payments. */
interface Struck {
  readonly round: Round;
  readonly asked: readonly Asked[];
  readonly askedX402: readonly AskedX402[];
  readonly bitcoin: BitcoinRound | undefined;
  /** Fulfilled once every client has its answer, with what was wrong with answers. */
  readonly answered: Promise<readonly string[]>;
  readonly kills: readonly Kill[];
  readonly from: number;
}

/** Load and faults of a round; resolves when the last fault is over. */
export async function strikeRound(world: CrashWorld, round: Round): Promise<Struck> {
  const { plan, agents, buyer, bitcoinAgents } = round;
  const asked = planAsked(plan, agents);
  const askedX402 = planAskedX402(plan.x402, buyer);
  const from = Date.now();
  world.chain.setBlockTime(plan.blockMs);
  const label = `change ${agents[0]!.id}`;
  const answered = Promise.all([
    ask(world, { asked, from }),
    change(world, { changes: plan.changes, asked, from, label }),
    askX402(world, { buyer, plan: plan.x402, asked: askedX402, from }),
  ]).then(([, wrong]) => wrong);
  answered.catch(() => {});
  const bitcoin = plan.bitcoin && beginBitcoin(world, { plan: plan.bitcoin, agents: bitcoinAgents, from });
  const ids = () => [...acceptedIds([...asked, ...(bitcoin?.asked ?? [])]), ...x402Ids(buyer, askedX402)];
  const [kills] = await Promise.all([
    strike(world, { faults: plan.faults, ids, from }),
    delay(strikesMs),
    bitcoin?.struck,
  ]);
  return { round, asked, askedX402, bitcoin, answered, kills, from };
}

/** Waits until nothing of the round is pending, and holds what the service says against the chain. */
export async function finishRound(world: CrashWorld, struck: Struck): Promise<RoundResult> {
  const { round, asked, askedX402, bitcoin, answered, kills, from } = struck;
  const { agents, buyer, bitcoinAgents } = round;
  const problems: string[] = [];
  let stored: StoredPayment[] = [];
  let storedOnBitcoin: readonly StoredPayment[] = [];
  let x402: readonly StoredX402[] = [];
  let counts: ReadonlyMap<string, number> = new Map();
  let ms = 0;
  try {
    problems.push(...(await answered.catch((error: Error) => [`A client had no answer: ${error.message}`])));
    const isPaid = await untilSettled(world, [...agents, ...bitcoinAgents]);
    ms = Date.now() - from;
    const isSettled = (await untilOver(world, buyer)) && isPaid;
    await deleteSession(world, buyer);
    if (!isSettled) problems.push(`Payments are pending ${settleWithinMs / 1000} s after the last fault.`);
    // By then every block that a payment of the round may stand in is below the reach of a reorganisation.
    await world.chain.pass(maxReorgDepth + 1);
    stored = await readStored(world, agents);
    const seen = await readChain(world, agents);
    counts = seen.counts;
    problems.push(...checkRound({ agents, asked, stored, ...seen }));
    const session = await insistOn(() => readSession(world.pool, buyer));
    x402 = session.stored;
    problems.push(...checkX402({ buyer, asked: askedX402, ...session, ...(await readBuyer(world, buyer)) }));
    if (bitcoin) {
      const seenThere = await finishBitcoin(world, bitcoin);
      storedOnBitcoin = seenThere.stored;
      problems.push(...seenThere.problems);
    }
    const agentIds = [...agents, ...bitcoinAgents, buyer.agent].map(({ id }) => id);
    if (isSettled) problems.push(...(await insistOn(() => checkBooks(world.pool, { agentIds }))));
  } catch (error) {
    problems.push(`The round could not be checked: ${error instanceof Error ? error.stack : String(error)}`);
  }
  return { round, problems, stored, bitcoin: storedOnBitcoin, x402, kills, counts, ms };
}

async function untilSettled({ pool }: CrashWorld, agents: readonly { readonly id: string }[]): Promise<boolean> {
  const ids = agents.map(({ id }) => id);
  const deadline = Date.now() + settleWithinMs;
  while (Date.now() < deadline) {
    const { rows } = await insistOn(() =>
      pool.query<{ count: number }>(
        `select count(*)::int as count from transactions where agent_id = any($1) and status = 'pending'`,
        [ids],
      ),
    );
    if (rows[0]!.count === 0) return true;
    await delay(lookMs);
  }
  return false;
}

/** What is not used expires, some time after the last fault. */
async function untilOver({ pool }: CrashWorld, buyer: Buyer): Promise<boolean> {
  for (const deadline = Date.now() + settleWithinMs; Date.now() < deadline; await delay(lookMs))
    if ((await insistOn(() => countOpen(pool, buyer))) === 0) return true;
  return false;
}

/** Postgres may have been killed a moment ago by the next round. */
async function insistOn<T>(query: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + settleWithinMs;
  for (;;) {
    try {
      return await query();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(lookMs);
    }
  }
}

async function readChain({ chain, usdcAddress }: CrashWorld, agents: readonly CrashAgent[]) {
  const of = async <T>(read: (agent: CrashAgent) => Promise<T>) =>
    new Map(await Promise.all(agents.map(async (agent) => [agent.id, await read(agent)] as const)));
  return {
    mined: await of(({ address }) => chain.sentBy(address)),
    counts: await of(({ address }) => chain.transactionCount(address)),
    after: await of(({ address }) => chain.balances(address, usdcAddress)),
    usdcAddress,
  };
}

async function readBuyer({ chain, usdcAddress }: CrashWorld, { agent: { address } }: Buyer) {
  return {
    ...(await chain.usedBy(address, usdcAddress)),
    afterMinor: (await chain.balances(address, usdcAddress)).minorUnits,
    count: await chain.transactionCount(address),
  };
}
