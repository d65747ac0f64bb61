import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import type { Pool } from '../shared/db/pool.ts';
import { type EndedRun, markVisited } from '../shared/db/unattended.ts';
import type { Logger } from '../shared/log.ts';
import { kinds, type Visitable, type VisitedKind } from './visited-kinds.ts';

/** Rows that are visited before they are marked: all that is visited twice when a worker dies. */
const batchSize = 100;
/** Calls to Temporal at a time. */
const width = 10;
/** No batch of a kind is begun later than this; the next run goes on. */
const limitMs = 15_000;
/** How far back workflows are looked for that were ended from outside; visibility may lag behind. */
const endedWithinMs = 180_000;
const maxEnded = 1_000;
/** From this attempt on a step is said to fail again and again. */
const manyAttempts = 3;

export interface VisitDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly logger: Logger;
}

export interface Visits {
  visited: number;
  started: number;
  nudged: number;
  failing: number;
}

/**
 * Makes sure that each open payment, session and late delivery has a workflow that runs, whatever became of the one before: the
 * database says that it is open, and every step of a new one resumes from there. Nudges those without progress.
 * Safe from several processes at once: a workflow is started once, and the rest are hints.
 * @param unwatched chains whose payments are nudged sooner
 */
export async function visitPayments(
  deps: VisitDependencies,
  { unwatched }: { unwatched: readonly string[] },
): Promise<Visits> {
  const visits: Visits = { visited: 0, started: 0, nudged: 0, failing: 0 };
  const ended = await endedRuns(deps.client);
  for (const kind of kinds) {
    const deadline = performance.now() + limitMs;
    const rows = await kind.listEnded(deps.pool, { ended: ended.get(kind.workflow) ?? [] });
    await visitAll(deps, { kind, rows, visits });
    const seen = new Set<string>();
    while (performance.now() < deadline) {
      const listed = await kind.list(deps.pool, { unwatched, limit: batchSize });
      const fresh = listed.filter(({ id }) => !seen.has(id));
      if (fresh.length === 0) break;
      for (const { id } of fresh) seen.add(id);
      await visitAll(deps, { kind, rows: fresh, visits });
      if (listed.length < batchSize) break;
    }
  }
  return visits;
}

/** By type, workflows that somebody terminated, or which failed: their rows need not wait for their turn. */
async function endedRuns(client: Client): Promise<Map<string, EndedRun[]>> {
  const since = new Date(Date.now() - endedWithinMs).toISOString();
  const types = kinds.map(({ workflow }) => `'${workflow}'`).join(', ');
  const query = `WorkflowType in (${types}) and ExecutionStatus in ('Terminated', 'Failed', 'TimedOut', 'Canceled') and CloseTime > '${since}'`;
  const ended = new Map<string, EndedRun[]>();
  let count = 0;
  for await (const { workflowId, type, closeTime } of client.workflow.list({ query })) {
    ended.set(type, [...(ended.get(type) ?? []), { id: workflowId, closedAt: closeTime ?? new Date() }]);
    count += 1;
    if (count === maxEnded) break;
  }
  return ended;
}

async function visitAll(
  deps: VisitDependencies,
  { kind, rows, visits }: { kind: VisitedKind; rows: readonly Visitable[]; visits: Visits },
): Promise<void> {
  for (let start = 0; start < rows.length; start += width) {
    const part = rows.slice(start, start + width);
    await Promise.all(part.map((row) => visit(deps, { kind, row, visits })));
    await markVisited(deps.pool, { table: kind.table, ids: part.map(({ id }) => id) });
    visits.visited += part.length;
  }
}

async function visit(
  deps: VisitDependencies,
  { kind, row, visits }: { kind: VisitedKind; row: Visitable; visits: Visits },
): Promise<void> {
  const { client, logger } = deps;
  try {
    await client.workflow.start(kind.workflow, {
      ...row.start,
      workflowIdConflictPolicy: 'FAIL',
      // Also one that has ended as it should, while its row says otherwise: after a restore of the database.
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    });
    visits.started += 1;
    logger.warn(row.facts, `started the missing workflow of a ${kind.word}`);
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    if (row.isStuck) await nudge(deps, { kind, row, visits });
  }
}

/** A hint that decides nothing, and a look at why nothing is done. */
async function nudge(
  { client, logger }: VisitDependencies,
  { kind, row, visits }: { kind: VisitedKind; row: Visitable; visits: Visits },
) {
  const handle = client.workflow.getHandle(row.id);
  try {
    // In this order: a signal begins its count of attempts anew.
    const why = whyFailing(await handle.describe());
    if (row.hint !== undefined) await handle.signal(row.hint);
    visits.nudged += 1;
    if (why === undefined) return;
    visits.failing += 1;
    logger.error({ ...row.facts, why }, `a ${kind.word} makes no progress`);
  } catch (error) {
    // It has ended meanwhile.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

type Description = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['describe']>>;

/** Which step is tried again and again, in words; undefined when none is. */
function whyFailing({ raw }: Description): string | undefined {
  const task = raw.pendingWorkflowTask?.attempt ?? 1;
  if (Number(task) >= manyAttempts) return `its workflow task fails, attempt ${task}`;
  const step = raw.pendingActivities?.find(({ attempt }) => Number(attempt ?? 1) >= manyAttempts);
  if (!step) return undefined;
  const reason = step.lastFailure?.message ?? 'no answer in time';
  return `step ${step.activityType?.name} fails, attempt ${step.attempt}: ${reason}`;
}
