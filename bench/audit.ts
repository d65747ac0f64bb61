import { setTimeout as delay } from 'node:timers/promises';
import { createCountFolder } from '../activities/fold-counts.ts';
import { createAuditSealer } from '../activities/seal-audit.ts';
import { createSettle } from '../activities/settle.ts';
import type { Progress } from '../dev/progress.ts';
import { verifyChain } from '../shared/audit-chain.ts';
import { ensureAuditHead, readChainState } from '../shared/db/audit-heads.ts';
import { readChain } from '../shared/db/audit-logs.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { createLogger } from '../shared/log.ts';
import { renderAudit } from '../shared/render-audit.ts';
import { tidyTables } from './decisions.ts';
import { inParallel, type Throughput } from './parallel.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { type Summary, summarise, timed } from './samples.ts';
import { insertFinal, insertSettlementAccount, type SettlementAccount } from './settlement-rows.ts';
import { settleAndChain, settleAndNote, settleBare } from './settlements.ts';

/** Settlements a second of one account that are to be kept up. */
const rate = 200;
/** Agents of the account; settlements of one agent wait for each other anyhow. */
const agents = 20;
/** Settlements under way at once at full speed, and connections. */
const width = 20;
/** Settlements at the rate that wait for their end, at most. */
const maxUnderWay = 60;
/** How often it is looked which entries have got their place. */
const lookMs = 20;

/** How much is measured. */
export interface AuditPlan {
  /** How long the rate is kept up. */
  readonly seconds: number;
  /** Settlements at full speed. */
  readonly settlements: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullAuditPlan: AuditPlan = { seconds: 30, settlements: 4_000, limitMs: 120_000 };
export const quickAuditPlan: AuditPlan = { seconds: 5, settlements: 500, limitMs: 60_000 };

interface AuditContext {
  readonly plan: AuditPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** What is settled, by the names of the figures. */
const kinds = {
  bare: 'floor, settlement without event and entry',
  activity: 'settlement (activity), with event, delivery and entry',
  noted: 'settlement with event, delivery and two entries',
  chained: 'the same, one of them put into its chain at once',
} as const;
type Kind = keyof typeof kinds;
const atRate = (kind: Kind) => `${kinds[kind]}, at ${rate}/s`;
const atFullSpeed = (kind: Kind) => `${kinds[kind]}, at full speed`;
const lagOf = (how: string) => `entry → its place in the chain, ${how}`;

/**
 * Measures settlements of one account while its audit entries are sealed: SQL only, without Temporal, signers and chain.
 * @throws where the chain that has come of it is not whole
 */
export async function measureAudit(
  { appUrl, ownerUrl }: { appUrl: string; ownerUrl: string },
  context: AuditContext,
): Promise<MeasuredPart> {
  const pool = createPool({ url: appUrl, max: width, application: 'purser-bench' });
  const beside = createPool({ url: appUrl, max: 4, application: 'purser-bench-loops' });
  const logger = createLogger({ process: 'bench', level: 'error' });
  const loops = [createAuditSealer({ pool: beside, logger }), createCountFolder({ pool: beside, logger })];
  try {
    const account = await insertSettlementAccount(pool, { agents });
    await ensureAuditHead(pool, { accountId: account.accountId });
    // The entries of this one are not sealed: their writers put them into the chain.
    const other = await insertSettlementAccount(pool, { agents });
    await ensureAuditHead(pool, { accountId: other.accountId });
    for (const loop of loops) loop.start();
    const measured = await measureKinds({ pool, beside, ownerUrl, account, other }, context);
    for (const { accountId } of [account, other])
      await context.progress.step('the chain is whole', () => requireWhole(pool, { accountId }));
    return { ...measured, ratios: ratiosOf(measured) };
  } finally {
    await Promise.all(loops.map((loop) => loop.stop()));
    await pool.end();
    await beside.end();
  }
}

interface World {
  readonly pool: Pool;
  readonly beside: Pool;
  readonly ownerUrl: string;
  readonly account: SettlementAccount;
  readonly other: SettlementAccount;
}

async function measureKinds(world: World, { plan, progress, signal }: AuditContext) {
  const { pool, beside, account, other, ownerUrl } = world;
  const settle: Record<Kind, (id: string) => Promise<unknown>> = {
    bare: settleBare(pool),
    activity: createSettle({ pool }),
    noted: settleAndNote(pool),
    chained: settleAndChain(pool),
  };
  const durations = new Map<string, Summary>();
  const throughput = new Map<string, Throughput>();
  const run = (
    name: string,
    kind: Kind,
    { count, go }: { count: number; go: (once: () => Promise<unknown>) => Promise<Throughput> },
  ) =>
    progress.step(name, async () => {
      const whose = kind === 'chained' ? other : account;
      const ids = await insertFinal(pool, whose, { count });
      await tidyTables(ownerUrl);
      const watch = kind === 'noted' ? watchLag(beside, whose) : undefined;
      const ms: number[] = [];
      throughput.set(name, await go(async () => ms.push(await timed(() => settle[kind](ids.pop()!)))));
      durations.set(name, summarise(ms));
      const lags = await watch?.end();
      if (lags) durations.set(lagOf(name.slice(name.lastIndexOf(', ') + 2)), summarise(lags));
    });
  for (const kind of ['bare', 'noted'] as const)
    await run(atRate(kind), kind, {
      count: plan.seconds * rate,
      go: (once) => atPace(once, { total: plan.seconds * rate, signal }),
    });
  for (const kind of ['bare', 'activity', 'noted', 'chained'] as const)
    await run(atFullSpeed(kind), kind, {
      count: plan.settlements,
      go: (once) => inParallel(once, { width, total: plan.settlements, limitMs: plan.limitMs, signal }),
    });
  return { durations, throughput };
}

/** Begins one run after another at the rate; where too many are under way, later, which the throughput then shows. */
async function atPace(
  once: () => Promise<unknown>,
  { total, signal }: { total: number; signal: AbortSignal },
): Promise<Throughput> {
  const from = performance.now();
  const underWay = new Set<Promise<unknown>>();
  const failures: unknown[] = [];
  for (let index = 0; index < total; index += 1) {
    const waitMs = from + (index * 1000) / rate - performance.now();
    if (waitMs > 0) await delay(waitMs, undefined, { signal });
    if (underWay.size === maxUnderWay) await Promise.race(underWay);
    if (failures.length > 0) throw failures[0];
    const run = once().catch((error: unknown) => failures.push(error));
    underWay.add(run);
    void run.then(() => underWay.delete(run));
  }
  await Promise.all(underWay);
  if (failures.length > 0) throw failures[0];
  const seconds = (performance.now() - from) / 1000;
  return { done: total, seconds, perSecond: total / seconds };
}

/** Looks again and again which entries have got their place, and how old they are then. */
function watchLag(pool: Pool, { accountId }: SettlementAccount) {
  const lags: number[] = [];
  let isEnding = false;
  const look = async () => {
    const { head } = await readChainState(pool, { accountId });
    let { seq } = head;
    for (;;) {
      const { rows } = await pool.query<{ seq: string; lag: number }>(
        `select seq, extract(epoch from clock_timestamp() - created_at)::float8 * 1000 as lag
         from audit_logs where account_id = $1 and seq > $2 order by seq`,
        [accountId, seq],
      );
      lags.push(...rows.map(({ lag }) => lag));
      seq = Number(rows.at(-1)?.seq ?? seq);
      const { unsealed } = await readChainState(pool, { accountId });
      if (isEnding && rows.length === 0 && unsealed.count === 0) return;
      await delay(lookMs);
    }
  };
  const looking = look();
  // Told by end(); nobody asks where the measurement has failed before.
  looking.catch(() => {});
  return {
    async end(): Promise<number[]> {
      isEnding = true;
      await looking;
      return lags;
    },
  };
}

async function requireWhole(pool: Pool, { accountId }: { accountId: string }): Promise<void> {
  const { head } = await readChainState(pool, { accountId });
  const entries = async function* () {
    for await (const rows of readChain(pool, { accountId, fromSeq: 1, toSeq: head.seq, batch: 1_000 }))
      yield* rows.map(renderAudit);
  };
  const report = await verifyChain(entries(), { heads: [head] });
  if (!report.valid) throw new Error(`The chain is broken: ${JSON.stringify(report)}`);
}

function ratiosOf({ durations, throughput }: Pick<MeasuredPart, 'durations' | 'throughput'>): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const perSecond = (name: string) => throughput.get(name)!.perSecond;
  const kept = rate / perSecond(atRate('noted'));
  return [
    // The emptying at the end counts, and is a moment.
    { name: `${rate}/s / settlements/s, one account, with entries`, value: kept, aim: 1.02, isMet: kept <= 1.02 },
    { name: `${atRate('noted')} / floor`, value: p50(atRate('noted')) / p50(atRate('bare')) },
    ...(['activity', 'noted', 'chained'] as const).map((kind) => ({
      name: `settlements/s, floor / ${kinds[kind]}`,
      value: perSecond(atFullSpeed('bare')) / perSecond(atFullSpeed(kind)),
    })),
  ];
}
