import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { Pool } from '../shared/db/pool.ts';
import { takeUnvisited } from '../shared/db/transactions.ts';
import type { Logger } from '../shared/log.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Rows looked at in one run of the schedule. */
const batchSize = 500;

export interface StartMissingResult {
  /** Pending payments whose workflow was looked for. */
  readonly visited: number;
  /** Of those, the ones that had none and have one now. */
  readonly started: number;
}

/**
 * Starts the workflow of every pending payment that has none: the api died between storing and starting, Temporal was
 * away, or somebody terminated it. A running workflow is left alone.
 */
export function createStartMissing({ pool, client, logger }: { pool: Pool; client: Client; logger: Logger }) {
  return function startMissing(): Promise<StartMissingResult> {
    return withHeartbeat(startAll);
  };

  async function startAll(): Promise<StartMissingResult> {
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
}
