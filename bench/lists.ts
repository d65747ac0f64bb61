import pg from 'pg';
import { createCountFolder } from '../activities/fold-counts.ts';
import type { Progress } from '../dev/progress.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { createLogger } from '../shared/log.ts';
import { type ListCase, listCases } from './list-cases.ts';
import { type LoadedList, loadRows } from './list-rows.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { type Durations, interleave, type Summary, summarise, timed } from './samples.ts';

/** What lists of many rows are compared with. */
const fewRows = 10_000;
/** Many rows may cost this many times what few do. */
const aim = 2;
/** Pages that are asked for in the depth, of the largest size. */
const deepPages = [10, 100, 1_000, 10_000];
const deepSize = 100;

/** How much is measured. */
export interface ListPlan {
  readonly rows: number;
  readonly rounds: number;
  readonly warmUpRounds: number;
  readonly deepRounds: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullListPlan: ListPlan = {
  ...{ rows: 10_000_000, rounds: 200, warmUpRounds: 20, deepRounds: 5, limitMs: 120_000 },
};
export const quickListPlan: ListPlan = {
  ...{ rows: 1_000_000, rounds: 40, warmUpRounds: 5, deepRounds: 2, limitMs: 60_000 },
};

interface ListContext {
  readonly plan: ListPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}
interface Urls {
  readonly appUrl: string;
  readonly superuserUrl: string;
}

/**
 * Measures lists as the api reads them, each with few rows and with many, in turn: rows are spread over thirteen months
 * and a hundred accounts, of which one has nine tenths. One list is on the disk at a time.
 * @param urls of a migrated and empty Postgres
 */
export async function measureLists(urls: Urls, context: ListContext): Promise<MeasuredPart> {
  // Loading writes as much as months of service do; its checkpoints are not what is measured, and it tidies up itself.
  await run(urls.superuserUrl, `alter system set max_wal_size = '8GB'`);
  await run(urls.superuserUrl, 'alter system set autovacuum = off');
  await run(urls.superuserUrl, 'select pg_reload_conf()');
  const durations = new Map<string, Summary>();
  const ratios: Ratio[] = [];
  for (const listCase of listCases) {
    const measured = await measureList(urls, listCase, context);
    for (const [name, ms] of measured) durations.set(name, summarise(ms));
    for (const name of ['append', ...Object.keys(listCase.pages)]) {
      const p50 = (rows: number) => durations.get(titleOf(listCase.list, name, rows))!.p50;
      const value = p50(context.plan.rows) / p50(fewRows);
      const rows = `${shown(context.plan.rows)} / ${shown(fewRows)} rows`;
      ratios.push({ name: `${listCase.list}, ${name}: ${rows}`, value, aim, isMet: value <= aim });
    }
  }
  return { durations, throughput: new Map(), ratios };
}

const shown = (count: number) => count.toLocaleString('en-US');
const titleOf = (list: LoadedList, name: string, rows: number) => `${list}, ${name}, ${shown(rows)} rows`;

async function measureList(
  urls: Urls,
  listCase: ListCase,
  { plan, progress, signal }: ListContext,
): Promise<Map<string, number[]>> {
  const { list } = listCase;
  const few = await progress.step(`${shown(fewRows)} rows of ${list}`, () =>
    createList(urls, { name: 'few', list, count: fewRows, signal }),
  );
  const many = await progress.step(`${shown(plan.rows)} rows of ${list}`, () =>
    createList(urls, { name: 'many', list, count: plan.rows, signal }),
  );
  try {
    const cases = Object.entries({ append: listCase.append, ...listCase.pages }).flatMap(([name, run]) =>
      [few, many].map(
        ({ pool, count }) =>
          async (): Promise<Durations> => ({ [titleOf(list, name, count)]: await timed(() => run(pool)) }),
      ),
    );
    const { warmUpRounds: warmUp, rounds, limitMs, deepRounds } = plan;
    const first = await progress.step(`${list}: rows added, first pages`, () =>
      interleave(cases, { warmUp, rounds, limitMs, signal }),
    );
    const pages = deepPages.filter((page) => page * deepSize <= plan.rows / 2);
    const deep = await progress.step(`${list}: pages in the depth`, () =>
      interleave(
        pages.map((page) => async () => {
          const window = { limit: deepSize, offset: (page - 1) * deepSize };
          return {
            [titleOf(list, `page ${shown(page)}`, plan.rows)]: await timed(() => listCase.page(many.pool, window)),
          };
        }),
        { warmUp: 1, rounds: deepRounds, limitMs, signal },
      ),
    );
    return new Map([...first, ...deep]);
  } finally {
    await few.drop();
    await many.drop();
  }
}

interface List {
  readonly count: number;
  readonly pool: Pool;
  drop(): Promise<void>;
}

/** A copy of the migrated database, with so many rows of one list, whose counts are folded as in service. */
async function createList(
  { appUrl, superuserUrl }: Urls,
  { name, list, count, signal }: { name: string; list: LoadedList; count: number; signal: AbortSignal },
): Promise<List> {
  const database = `lists_${name}`;
  const drop = () => run(superuserUrl, `drop database if exists ${database} with (force)`);
  await run(superuserUrl, `create database ${database} template ${new URL(appUrl).pathname.slice(1)}`);
  try {
    await run(superuserUrl, `grant connect on database ${database} to purser_app`);
    await loadRows({ url: inDatabase(superuserUrl, database), list, count, signal });
  } catch (error) {
    await drop();
    throw error;
  }
  const pool = createPool({ url: inDatabase(appUrl, database), max: 2, application: 'purser-bench' });
  const folder = createCountFolder({ pool, logger: createLogger({ process: 'bench', level: 'error' }) });
  folder.start();
  return {
    count,
    pool,
    async drop() {
      await folder.stop();
      await pool.end();
      await drop();
    },
  };
}

function inDatabase(url: string, database: string): string {
  const result = new URL(url);
  result.pathname = `/${database}`;
  return result.href;
}

async function run(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}
