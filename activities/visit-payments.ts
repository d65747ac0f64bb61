import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import type { Pool } from '../shared/db/pool.ts';
import { listEnded, listUnattended, markVisited, type UnattendedRow } from '../shared/db/unattended.ts';
import type { Logger } from '../shared/log.ts';
import { messageNames, workflowNames } from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';

/** Rows that are visited before they are marked: all that is visited twice when a worker dies. */
const batchSize = 100;
/** Calls to Temporal at a time. */
const width = 10;
/** No batch is begun later than this; the next run goes on. */
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
 * Makes sure that each pending payment has a workflow that runs, whatever became of the one before: the database says
 * that the payment is open, and every step of a new one resumes from there. Nudges those without progress.
 * Safe from several processes at once: a workflow is started once, and the rest are hints.
 * @param unwatched chains whose payments are nudged sooner
 */
export async function visitPayments(
  deps: VisitDependencies,
  { unwatched }: { unwatched: readonly string[] },
): Promise<Visits> {
  const { pool } = deps;
  const visits: Visits = { visited: 0, started: 0, nudged: 0, failing: 0 };
  const deadline = performance.now() + limitMs;
  await visitAll(deps, { rows: await listEnded(pool, { ended: await endedRuns(deps.client) }), visits });
  const seen = new Set<string>();
  while (performance.now() < deadline) {
    const listed = await listUnattended(pool, { unwatched, limit: batchSize });
    const rows = listed.filter(({ id }) => !seen.has(id));
    if (rows.length === 0) break;
    for (const { id } of rows) seen.add(id);
    await visitAll(deps, { rows, visits });
    if (listed.length < batchSize) break;
  }
  return visits;
}

/** Payments whose workflow somebody terminated, or which failed: those need not wait for their turn. */
async function endedRuns(client: Client): Promise<{ id: string; closedAt: Date }[]> {
  const since = new Date(Date.now() - endedWithinMs).toISOString();
  const query = `WorkflowType = '${workflowNames.transaction}' and ExecutionStatus in ('Terminated', 'Failed', 'TimedOut', 'Canceled') and CloseTime > '${since}'`;
  const ended: { id: string; closedAt: Date }[] = [];
  for await (const { workflowId, closeTime } of client.workflow.list({ query })) {
    ended.push({ id: workflowId, closedAt: closeTime ?? new Date() });
    if (ended.length === maxEnded) break;
  }
  return ended;
}

async function visitAll(
  deps: VisitDependencies,
  { rows, visits }: { rows: readonly UnattendedRow[]; visits: Visits },
): Promise<void> {
  for (let start = 0; start < rows.length; start += width) {
    const part = rows.slice(start, start + width);
    await Promise.all(part.map((row) => visit(deps, { row, visits })));
    await markVisited(deps.pool, { ids: part.map(({ id }) => id) });
    visits.visited += part.length;
  }
}

async function visit(deps: VisitDependencies, { row, visits }: { row: UnattendedRow; visits: Visits }): Promise<void> {
  const { client, logger } = deps;
  try {
    await client.workflow.start(workflowNames.transaction, {
      ...transactionStart(row),
      workflowIdConflictPolicy: 'FAIL',
      // Also one that has ended as it should, while its row says otherwise: after a restore of the database.
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    });
    visits.started += 1;
    const { id: transaction_id, status_detail } = row;
    logger.warn({ transaction_id, status_detail }, 'started the missing workflow of a payment');
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    if (row.is_stuck) await nudge(deps, { row, visits });
  }
}

/** A hint that decides nothing, and a look at why nothing is done. */
async function nudge({ client, logger }: VisitDependencies, { row, visits }: { row: UnattendedRow; visits: Visits }) {
  const { id, chain, status_detail, is_waiting } = row;
  // Elsewhere nobody waits for a hint, and it would be taken for news of something else.
  const isListening = is_waiting || status_detail === 'broadcast' || status_detail === 'confirming';
  const handle = client.workflow.getHandle(id);
  try {
    // In this order: a signal begins its count of attempts anew.
    const why = whyFailing(await handle.describe());
    if (isListening) await handle.signal(messageNames.replace);
    visits.nudged += 1;
    if (why === undefined) return;
    visits.failing += 1;
    logger.error({ transaction_id: id, chain, status_detail, why }, 'a payment makes no progress');
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
