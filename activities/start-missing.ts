import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { takeReminders } from '../shared/db/approvals.ts';
import type { Pool } from '../shared/db/pool.ts';
import { takeUnvisited } from '../shared/db/transactions.ts';
import type { Logger } from '../shared/log.ts';
import { messageNames } from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Rows looked at in one run of the schedule. */
const batchSize = 500;

export interface StartMissingResult {
  /** Pending payments whose workflow was looked for. */
  readonly visited: number;
  /** Of those, the ones that had none and have one now. */
  readonly started: number;
  /** Payments that still waited after their question was answered or its policy was changed; they look again. */
  readonly reminded: number;
}

/**
 * Starts the workflow of every pending payment that has none: the api died between storing and starting, Temporal was
 * away, or somebody terminated it. A running workflow is left alone, unless it waits for
 * what has happened already.
 */
export function createStartMissing({ pool, client, logger }: { pool: Pool; client: Client; logger: Logger }) {
  return function startMissing(): Promise<StartMissingResult> {
    return withHeartbeat(async () => ({ ...(await startAll()), reminded: await remindAll() }));
  };

  async function startAll() {
    const rows = await takeUnvisited(pool, { limit: batchSize });
    let started = 0;
    for (const row of rows) {
      try {
        await client.workflow.start('transaction', { ...transactionStart(row), workflowIdConflictPolicy: 'FAIL' });
        started += 1;
        logger.warn(
          { transaction_id: row.id, status_detail: row.status_detail },
          'started the missing workflow of a payment',
        );
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      }
    }
    return { visited: rows.length, started };
  }

  /** The word about an answer gets lost when whoever decided dies right after, or Temporal is away; of a policy there is none. */
  async function remindAll(): Promise<number> {
    const ids = await takeReminders(pool, { limit: batchSize });
    for (const id of ids)
      await client.workflow
        .getHandle(id)
        .signal(messageNames.lookAgain)
        .catch((error: unknown) => logger.warn({ transaction_id: id, error: String(error) }, 'no workflow to remind'));
    return ids.length;
  }
}
