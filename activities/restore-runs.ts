import { type Client, type WorkflowExecutionInfo, WorkflowNotFoundError } from '@temporalio/client';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { findKnownIds, listUnsignedPending } from '../shared/db/restored.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import { endUnsent } from '../shared/end-unsent.ts';
import type { Logger } from '../shared/log.ts';
import { workflowNames } from '../shared/temporal.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Rows, and calls to Temporal, at a time. */
const batch = 100;
const width = 10;
/** Types of the workflows that follow payments; they go on from whatever the database says. */
const types = [workflowNames.transaction, workflowNames.x402Payment, workflowNames.x402Session]
  .map((name) => `'${name}'`)
  .join(', ');
const reason = 'The database was restored: another run goes on from what it knows.';
const lostEnd = 'It had ended in the time that was lost, before the database was restored: nothing of it was signed.';

interface RunDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly logger: Logger;
}

/**
 * Ends pending payments of which nothing was signed and whose workflow had ended as failed: what had been denied, rejected
 * or cancelled in the time that was lost must not come back to life. Those whose workflow is not known are told of.
 */
export function createEndLost({ pool, client }: RunDependencies) {
  return function endLost({ dryRun }: { dryRun: boolean }): Promise<RestoreFinding[]> {
    return withHeartbeat(async () => {
      const findings: RestoreFinding[] = [];
      for (let after = ''; ; ) {
        const rows = await listUnsignedPending(pool, { after, limit: batch });
        for (let start = 0; start < rows.length; start += width) {
          const part = rows.slice(start, start + width);
          findings.push(...(await Promise.all(part.map((row) => judge(row, dryRun)))).flat());
        }
        if (rows.length < batch) return findings;
        after = rows.at(-1)!.id;
      }
    });
  };

  async function judge({ id, words }: { id: string; words: string }, dryRun: boolean): Promise<RestoreFinding[]> {
    const end = await endOf(id);
    if (end === undefined) return [];
    if (end !== 'failed') {
      // What the signers know of it has not been stored.
      if (dryRun) return [];
      const detail = `${words} is pending here without any signature, and Temporal says that it had ended as ${end}. It goes on when the installation is unfrozen.`;
      return [{ what: 'still_open', id, detail }];
    }
    if (!dryRun)
      await inTransaction(pool, async (db) => {
        const { row } = await lockAgentAndTransaction(db, id);
        if (row.status === 'pending') await endUnsent(db, row, { code: 'cancelled', message: lostEnd });
      });
    return [{ what: 'payment_ended', id, detail: `${words} had failed or was cancelled in the time that was lost.` }];
  }

  /**
   * How the payment's workflow ended, in whichever of its runs: those that were started since the restore know nothing of
   * it. Undefined where none did.
   */
  async function endOf(id: string): Promise<string | undefined> {
    const query = `WorkflowId = '${id}' and ExecutionStatus = 'Completed'`;
    for await (const { runId } of client.workflow.list({ query }))
      return String(await client.workflow.getHandle(id, runId).result());
    return undefined;
  }
}

/** How far back runs are looked for that have failed for want of their row. */
const failedWithinMs = 7 * 24 * 60 * 60 * 1000;

/**
 * Ends every run that follows a payment or a session: it may have read what the database does not know any more. Missing
 * ones are started anew from what it knows. Tells of those whose row is lost: nothing was signed for them.
 */
export function createEndRuns({ pool, client, logger }: RunDependencies) {
  return function endRuns({ dryRun }: { dryRun: boolean }): Promise<RestoreFinding[]> {
    return withHeartbeat(async () => {
      const lostRuns = new Map<string, RestoreFinding>();
      let ended = 0;
      for await (const runs of batches(unfinished(client))) {
        const known = new Set(await findKnownIds(pool, { ids: runs.map(({ workflowId }) => workflowId) }));
        for (const run of runs) if (!known.has(run.workflowId)) lostRuns.set(run.workflowId, lost(run));
        const left = runs.filter(({ status }) => status.name === 'RUNNING');
        if (!dryRun) await Promise.all(left.map(end));
        ended += left.length;
      }
      const findings = [...lostRuns.values()];
      if (ended > 0) findings.push({ what: 'runs_ended', id: '', detail: `${ended} workflows go on in new runs.` });
      return findings;
    });
  };

  async function end({ workflowId, runId }: WorkflowExecutionInfo): Promise<void> {
    await client.workflow
      .getHandle(workflowId, runId)
      .terminate(reason)
      .catch((error: unknown) => {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      });
    logger.info({ payment_id: workflowId }, 'ended the run of a payment that goes on in another one');
  }
}

/** Those that run, and those that were ended without having come to their end, as where their row is lost. */
function unfinished(client: Client): AsyncIterable<WorkflowExecutionInfo> {
  const since = new Date(Date.now() - failedWithinMs).toISOString();
  return client.workflow.list({
    query: `WorkflowType in (${types}) and (ExecutionStatus = 'Running' or
      (ExecutionStatus in ('Failed', 'Terminated', 'TimedOut', 'Canceled') and CloseTime > '${since}'))`,
  });
}

async function* batches<T>(items: AsyncIterable<T>): AsyncGenerator<T[]> {
  let part: T[] = [];
  for await (const item of items) {
    part.push(item);
    if (part.length < width) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}

function lost({ workflowId: id, type }: WorkflowExecutionInfo): RestoreFinding {
  const what = type === workflowNames.x402Session ? 'x402 session' : 'payment';
  const detail = `The ${what} ${id} was asked for in the time that was lost, and nothing was signed for it that is not told of above: whoever asked for it has to ask again.`;
  return { what: 'request_lost', id, detail };
}
