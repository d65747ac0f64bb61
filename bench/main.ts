// npm run bench: brings up a Postgres and then stacks of its own, measures them beside their floors, prints a table,
// and stops everything.
import { mkdirSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createProgress } from '../dev/progress.ts';
import { fail, printResult, readCommandLine } from '../shared/command-line.ts';
import type { EngineChoice } from '../signer/engine/load.ts';
import { fullAuditPlan, measureAudit, quickAuditPlan } from './audit.ts';
import { fullDecisionPlan, measureDecisions, quickDecisionPlan } from './decisions.ts';
import { fullFamilyPlan, measureFamilies, quickFamilyPlan } from './families.ts';
import { fullLimitPlan, measureLimits, quickLimitPlan } from './limits.ts';
import { fullListPlan, measureLists, quickListPlan } from './lists.ts';
import { fullPlan, measure, quickPlan } from './measure.ts';
import { fullOperationsPlan, measureOperations, quickOperationsPlan } from './operations.ts';
import { fullKillsEach, measureRecovery, quickKillsEach } from './recovery.ts';
import { createReport, type Report } from './report.ts';
import { fullSigningPlan, measureSigning, quickSigningPlan } from './signing.ts';
import { renderTable } from './table.ts';
import { fullWebhookPlan, measureWebhooks, quickWebhookPlan } from './webhooks.ts';
import { withDatabase } from './with-database.ts';
import { withStack } from './with-stack.ts';
import { measureX402 } from './x402.ts';

const USAGE = `Usage: npm run bench [-- --quick] [--only PART] [--rows N] [--json]

  --quick            a tenth of the samples: does it work, and about where are we
  --only decisions   policy decisions by themselves; brings up a Postgres and nothing else
  --only payments    whole payments, with two workers
  --only x402        payments out of x402 sessions, with two workers
  --only families    payments on a chain of each family: EVM, Bitcoin (a node of its own, built with Go) and Tron (a double)
  --only webhooks    deliveries to receivers that hang and fail; brings up a Postgres, a Temporal and a worker
  --only signatures  signatures and refreshes by three signers beside the mere computation, by each build of the engine
                     that is there (npm run engine:native); brings up signers and nothing else
  --only audit       settlements of one account while its audit log is sealed; brings up a Postgres and nothing else
  --only limits      the count of requests of keys that are limited; brings up a Postgres and an api process
  --only lists       lists of events, audit entries, deliveries and payments with 10,000 rows and with many
                     (--rows N, else 10,000,000, or 1,000,000 of a quick run: 25 GB of disk and half an hour)
  --only operations  what scrapes, the look at freezes and traces cost; brings up two Postgres, then two stacks side by side
  --only recovery    how long it takes after a kill -9 of each part until a payment is confirmed
  --json             prints the figures as one JSON value, as they are stored, in place of the table
  --help             this text

  What is under way, and for how long, stands on the error output. Exit status: 0 measured, 1 failed, 2 the command line is
  wrong, 130 stopped. Leave the machine alone meanwhile: two cores are shared by everything that is measured. Data and ports are the
  measurement's own; other settings (PURSER_ENGINE, PURSER_MAX_IN_FLIGHT …) are taken from the environment.
`;
const parts = [
  'decisions',
  'payments',
  'x402',
  'families',
  'webhooks',
  'signatures',
  'audit',
  'limits',
  'lists',
  'operations',
  'recovery',
] as const;
const results = fileURLToPath(new URL('./results/', import.meta.url));

async function main(): Promise<void> {
  const options = { quick: { type: 'boolean' }, only: { type: 'string' }, rows: { type: 'string' } } as const;
  const values = readCommandLine(USAGE, { options }, ({ only, rows }) => {
    if (only !== undefined && !parts.some((part) => part === only))
      return `--only ${only}: the parts that can be measured alone are ${parts.join(', ')}.`;
    return rows === undefined || readRows(rows) !== undefined
      ? undefined
      : `--rows ${rows}: lists are measured with 100,000 rows or more.`;
  });
  const measures = (part: (typeof parts)[number]) => values.only === undefined || values.only === part;
  const quick = values.quick ?? false;
  const rows = values.rows === undefined ? undefined : readRows(values.rows);
  const listPlan = { ...(quick ? quickListPlan : fullListPlan), ...(rows !== undefined && { rows }) };
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => ending.abort(new Stopped(name)));
  // dev/bootstrap.mjs holds the other end of this channel; it closes with it, also after kill -9.
  if (process.channel) {
    process.on('disconnect', () => ending.abort(new Stopped('the starting command is gone')));
    process.channel.unref();
  }
  const progress = createProgress(process.stderr);
  const { signal } = ending;
  const engine = (process.env.PURSER_ENGINE ?? 'auto') as EngineChoice;
  const loadBefore = loadavg()[0]!;
  const date = new Date();
  try {
    const decisions = measures('decisions')
      ? await withDatabase({ progress }, (database) =>
          measureDecisions(database, { plan: quick ? quickDecisionPlan : fullDecisionPlan, progress, signal }),
        )
      : undefined;
    const payments = measures('payments')
      ? await withStack({ env: process.env, progress, signal }, (stack) =>
          measure(stack, { plan: quick ? quickPlan : fullPlan, engine, progress, signal }),
        )
      : undefined;
    const x402 = measures('x402')
      ? await withStack({ env: process.env, progress, signal }, (stack) =>
          measureX402(stack, { plan: quick ? quickPlan : fullPlan, engine, progress, signal }),
        )
      : undefined;
    const families = measures('families')
      ? await measureFamilies({
          ...{ env: process.env, progress, signal },
          plan: quick ? quickFamilyPlan : fullFamilyPlan,
        })
      : undefined;
    const webhooks = measures('webhooks')
      ? await withDatabase({ progress }, (database) =>
          measureWebhooks(database, { plan: quick ? quickWebhookPlan : fullWebhookPlan, progress, signal }),
        )
      : undefined;
    const signatures = measures('signatures')
      ? await measureSigning({ plan: quick ? quickSigningPlan : fullSigningPlan, progress, signal })
      : undefined;
    const audit = measures('audit')
      ? await withDatabase({ progress }, (database) =>
          measureAudit(database, { plan: quick ? quickAuditPlan : fullAuditPlan, progress, signal }),
        )
      : undefined;
    const limits = measures('limits')
      ? await withDatabase({ progress }, (database) =>
          measureLimits(database, { plan: quick ? quickLimitPlan : fullLimitPlan, progress, signal }),
        )
      : undefined;
    const lists = measures('lists')
      ? await withDatabase({ progress }, (database) => measureLists(database, { plan: listPlan, progress, signal }))
      : undefined;
    const operations = measures('operations')
      ? await measureOperations({
          ...{ env: process.env, progress, signal },
          plan: quick ? quickOperationsPlan : fullOperationsPlan,
        })
      : undefined;
    const recovery = measures('recovery')
      ? await measureRecovery({ killsEach: quick ? quickKillsEach : fullKillsEach, progress, signal })
      : undefined;
    const report = createReport(
      { decisions, payments, x402, families, webhooks, signatures, audit, limits, lists, operations, recovery },
      { date, quick, loadBefore },
    );
    printResult(report, { json: values.json, show: (figures) => `\n${renderTable(figures)}` });
    progress.line(`Written to ${relative(process.cwd(), store(report))}.`);
  } finally {
    progress.stop();
  }
}

function readRows(text: string): number | undefined {
  const rows = Number(text.replaceAll(',', ''));
  return Number.isSafeInteger(rows) && rows >= 100_000 ? rows : undefined;
}

/** Somebody wants us to end; no failure. */
class Stopped extends Error {
  override name = 'Stopped';
}

function store(report: Report): string {
  mkdirSync(results, { recursive: true });
  const file = join(results, `${report.date.replaceAll(':', '-')}.json`);
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  return file;
}

try {
  await main();
  process.exit(0);
} catch (error) {
  if (error instanceof Stopped) {
    const text = `Stopped before the measurement was complete (${error.message}). Everything is stopped.`;
    fail(text, { status: 130, code: 'stopped' });
  }
  fail(String((error as Error).stack), { summary: (error as Error).message });
}
