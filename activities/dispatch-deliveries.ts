import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import {
  claimDeliveries,
  type DispatchedRow,
  giveBackDeliveries,
  hasUndispatched,
} from '../shared/db/webhook-deliveries.ts';
import type { Logger } from '../shared/log.ts';
import { workflowNames } from '../shared/temporal.ts';
import { webhookDeliveryStart } from '../shared/webhook-delivery-start.ts';
import { createLoop, type Loop } from './loop.ts';

/** How long an event waits at most until it is seen; a look at an empty table takes a millisecond or two. */
const idleMs = 150;
/** Deliveries that are taken at once. */
const batchSize = 100;
/** Calls to Temporal at a time. */
const width = 20;
/** For one call. */
const startTimeoutMs = 5_000;
/**
 * First attempts of one webhook under way at once. With one that hangs, each of its eight attempts may hold as many of the
 * worker's slots, if events keep coming for hours: all of them together leave a third of the slots free
 * (worker/deliveries.ts). For one that answers in 100 ms it is enough for 200 deliveries a second.
 */
const perWebhook = 25;

/**
 * Starts the workflow of each delivery that is stored, soon after its commit. What it takes and then cannot start it gives
 * back; what it takes and dies with, the reconcile schedule finds.
 */
export function createDispatcher({ pool, client, logger }: { pool: Pool; client: Client; logger: Logger }): Loop {
  async function round(): Promise<'busy' | 'idle'> {
    // Planning what follows takes longer than this whole look.
    if (!(await hasUndispatched(pool))) return 'idle';
    const claimed = await inTransaction(pool, (db) => claimDeliveries(db, { perWebhook, limit: batchSize }));
    const failed: string[] = [];
    let reason: unknown;
    for (let start = 0; start < claimed.length; start += width) {
      const part = claimed.slice(start, start + width);
      // Temporal is asked once more for each part: what is wrong may be one delivery's.
      const results = await Promise.allSettled(part.map(begin));
      for (const [index, result] of results.entries()) {
        if (result.status === 'fulfilled') continue;
        failed.push(part[index]!.id);
        reason = result.reason;
      }
    }
    if (failed.length > 0) {
      await giveBackDeliveries(pool, { ids: failed });
      throw new Error(`${failed.length} deliveries could not be started: ${String(reason)}`);
    }
    return claimed.length > 0 ? 'busy' : 'idle';
  }

  async function begin(row: DispatchedRow): Promise<void> {
    try {
      await client.withDeadline(Date.now() + startTimeoutMs, () =>
        client.workflow.start(workflowNames.webhookDelivery, webhookDeliveryStart(row)),
      );
    } catch (error) {
      // By whoever asked for a test, or by a call before this one whose answer got lost.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
  }

  return createLoop({ name: 'dispatch deliveries', idleMs, round, logger });
}
