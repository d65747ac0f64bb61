import pg from 'pg';
import { createEvaluatePolicy } from '../activities/evaluate-policy.ts';
import type { Progress } from '../dev/progress.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { databaseClock } from '../shared/db/clock.ts';
import { createPool, inTransaction, type Pool } from '../shared/db/pool.ts';
import { type DecisionAgent, insertAgent, insertPending } from './decision-rows.ts';
import { inParallel, type Throughput } from './parallel.ts';
import { type Durations, interleave, type Summary, summarise, timed } from './samples.ts';

/** Decisions under way at once, and the connections that they share. */
const width = 50;
const connections = 20;
/** Payments of the past that an agent of the first cases has. */
const fewPast = 10;

/** How much is measured. */
export interface DecisionPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Decisions of one run with many at a time. */
  readonly decisions: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullDecisionPlan: DecisionPlan = { rounds: 300, warmUpRounds: 20, decisions: 1_000, limitMs: 60_000 };
export const quickDecisionPlan: DecisionPlan = { rounds: 30, warmUpRounds: 5, decisions: 100, limitMs: 30_000 };

/** One at a time. */
export const decisionNames = {
  select: 'floor, select 1',
  bare: 'floor, lock a row, insert one, commit',
  none: 'decision, no policy, 10 past',
  few: 'decision, 5 policies, 10 past',
  many: 'decision, 20 policies, 10 past',
  past10k: 'decision, 5 policies, 10,000 past',
  past100k: 'decision, 5 policies, 100,000 past',
} as const;
/** Many at a time. */
export const decisionRuns = {
  bareOneAgent: 'floor, lock, insert, commit, 1 agent',
  oneAgent: 'decisions, 1 agent',
  bareManyAgents: `floor, lock, insert, commit, ${width} agents`,
  manyAgents: `decisions, ${width} agents`,
} as const;

/** Agents by the cases that they serve. */
const agentsOf = {
  [decisionNames.none]: { policies: 0, past: fewPast },
  [decisionNames.few]: { policies: 5, past: fewPast },
  [decisionNames.many]: { policies: 20, past: fewPast },
  [decisionNames.past10k]: { policies: 5, past: 10_000 },
  [decisionNames.past100k]: { policies: 5, past: 100_000 },
} as const;

export interface MeasuredDecisions {
  readonly durations: ReadonlyMap<string, Summary>;
  readonly throughput: ReadonlyMap<string, Throughput>;
}

/**
 * Measures the first evaluation of payments by itself: no API, no workflow, no signers.
 * @param ownerUrl of the role that owns the tables, to have them analysed as autovacuum does after a while
 */
export async function measureDecisions(
  { appUrl, ownerUrl }: { appUrl: string; ownerUrl: string },
  { plan, progress, signal }: { plan: DecisionPlan; progress: Progress; signal: AbortSignal },
): Promise<MeasuredDecisions> {
  const pool = createPool({ url: appUrl, max: connections, application: 'purser-bench' });
  try {
    const { single, crowd } = await progress.step('agents with a past', async () => {
      const single = new Map<string, DecisionAgent>();
      for (const [name, o] of Object.entries(agentsOf)) {
        signal.throwIfAborted();
        single.set(name, await insertAgent(pool, o));
      }
      const crowd: DecisionAgent[] = [];
      while (crowd.length < width) crowd.push(await insertAgent(pool, { policies: 5, past: fewPast }));
      await tidyTables(ownerUrl);
      return { single, crowd };
    });
    const alone = await progress.step('decisions one at a time, floors in turn', async () => {
      const cases: (() => Promise<Durations>)[] = [selectCase(pool), bareCase(pool, crowd[0]!)];
      const count = plan.rounds + plan.warmUpRounds;
      for (const [name, agent] of single) cases.push(await decisionCase(pool, { name, agent, count }));
      return interleave(cases, { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal });
    });
    const durations = new Map([...alone].map(([name, ms]) => [name, summarise(ms)]));
    return { durations, throughput: await measureParallel(pool, { crowd, plan, progress, signal }) };
  } finally {
    await pool.end();
  }
}

function selectCase(pool: Pool) {
  return async () => ({ [decisionNames.select]: await timed(() => pool.query('select 1')) });
}

function bareCase(pool: Pool, agent: DecisionAgent) {
  return async () => ({ [decisionNames.bare]: await timed(() => bareTransaction(pool, agent)) });
}

/** The payments are stored beforehand, so that a round holds nothing but the decision. */
async function decisionCase(pool: Pool, { name, agent, count }: { name: string; agent: DecisionAgent; count: number }) {
  const ids = await insertPending(pool, agent, { count });
  const decide = createDecide(pool);
  return async () => ({ [name]: await timed(() => decide(ids.pop()!)) });
}

/** @throws where a decision is not what is measured: a denial does less */
function createDecide(pool: Pool) {
  const evaluatePolicy = createEvaluatePolicy({ pool, clock: databaseClock });
  return async (id: string): Promise<void> => {
    const { outcome } = await evaluatePolicy(id);
    if (outcome !== 'allowed') throw new Error(`Payment ${id} was to be allowed; the decision says "${outcome}".`);
  };
}

/** The least that a decision which is kept can be: one lock, one row, one commit. */
function bareTransaction(pool: Pool, { accountId, agentId }: DecisionAgent): Promise<void> {
  return inTransaction(pool, async (db) => {
    await db.query('select * from agents where id = $1 for no key update', [agentId]);
    await insertAudit(db, {
      accountId,
      agentId,
      action: 'transaction.evaluated',
      acting: bySystem,
      resourceType: 'transaction',
      resourceId: agentId,
      result: 'success',
      metadata: {},
    });
  });
}

/** Each floor right before its subject; a lap of every lane before each, which is not counted. */
async function measureParallel(
  pool: Pool,
  o: { crowd: readonly DecisionAgent[]; plan: DecisionPlan; progress: Progress; signal: AbortSignal },
): Promise<Map<string, Throughput>> {
  const { crowd, plan, progress, signal } = o;
  const throughput = new Map<string, Throughput>();
  const run = (name: string, once: (lane: number) => Promise<unknown>) =>
    progress.step(name, async () => {
      const bounds = { width, limitMs: plan.limitMs, signal };
      await inParallel(({ lane }) => once(lane), { ...bounds, total: width });
      throughput.set(name, await inParallel(({ lane }) => once(lane), { ...bounds, total: plan.decisions }));
    });

  const decide = createDecide(pool);
  for (const [floorName, name, agents] of [
    [decisionRuns.bareOneAgent, decisionRuns.oneAgent, crowd.slice(0, 1)],
    [decisionRuns.bareManyAgents, decisionRuns.manyAgents, crowd],
  ] as const) {
    await run(floorName, (lane) => bareTransaction(pool, agents[lane % agents.length]!));
    const ids = await insertPendingInTurn(pool, { agents, count: plan.decisions + width });
    await run(name, () => decide(ids.pop()!));
  }
  return throughput;
}

/** Payments that wait for their decision, one agent's after another's. @returns at least `count` ids */
async function insertPendingInTurn(pool: Pool, o: { agents: readonly DecisionAgent[]; count: number }) {
  const each = Math.ceil(o.count / o.agents.length);
  const lists = await Promise.all(o.agents.map((agent) => insertPending(pool, agent, { count: each })));
  return Array.from({ length: each }, (_, index) => lists.map((ids) => ids[index]!)).flat();
}

/** What autovacuum does some time after so many rows; done now, so that it does not begin meanwhile. */
export async function tidyTables(ownerUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl });
  await client.connect();
  try {
    await client.query('vacuum (analyze)');
  } finally {
    await client.end();
  }
}
