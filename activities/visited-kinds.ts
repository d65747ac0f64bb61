import type { Pool } from '../shared/db/pool.ts';
import {
  type EndedRun,
  listEnded,
  listEndedDeliveries,
  listEndedX402,
  listLateDeliveries,
  listUnattended,
  listUnattendedX402,
  type markVisited,
  type UnattendedRow,
} from '../shared/db/unattended.ts';
import type { DeliveryRow } from '../shared/db/webhook-deliveries.ts';
import { messageNames, workflowNames } from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { webhookDeliveryStart } from '../shared/webhook-delivery-start.ts';
import { x402PaymentStart, x402SessionStart } from '../shared/x402-start.ts';

/** A row that is to have a workflow that runs. */
export interface Visitable {
  readonly id: string;
  readonly start: ReturnType<
    typeof transactionStart | typeof x402PaymentStart | typeof x402SessionStart | typeof webhookDeliveryStart
  >;
  /** Nothing was done on it for long. */
  readonly isStuck: boolean;
  /** The signal that its workflow listens to now, if any. */
  readonly hint: string | undefined;
  /** What is logged about it. */
  readonly facts: Readonly<Record<string, string>>;
}

/** A kind of row, each of which is followed by a workflow of its own from its first to its last day. */
export interface VisitedKind {
  readonly table: Parameters<typeof markVisited>[1]['table'];
  readonly workflow: string;
  readonly word: string;
  /** Open rows whose turn it is. */
  list(pool: Pool, o: { unwatched: readonly string[]; limit: number }): Promise<Visitable[]>;
  /** Those of these that are open and were not visited since. */
  listEnded(pool: Pool, o: { ended: readonly EndedRun[] }): Promise<Visitable[]>;
}

function transaction(row: UnattendedRow): Visitable {
  const { id, chain, status_detail, is_waiting, is_stuck: isStuck } = row;
  // Elsewhere nobody waits for a hint, and it would be taken for news of something else.
  const isListening = is_waiting || status_detail === 'broadcast' || status_detail === 'confirming';
  const hint = isListening ? messageNames.replace : undefined;
  return { id, start: transactionStart(row), isStuck, hint, facts: { transaction_id: id, chain, status_detail } };
}

function x402Payment(row: Awaited<ReturnType<typeof listUnattendedX402<'x402_payments'>>>[number]): Visitable {
  const { id, chain, status_detail, is_stuck: isStuck } = row;
  const facts = { ledger_id: id, chain, status_detail };
  return { id, start: x402PaymentStart(row), isStuck, hint: messageNames.replace, facts };
}

function x402Session(row: Awaited<ReturnType<typeof listUnattendedX402<'x402_sessions'>>>[number]): Visitable {
  const { id, chain, is_stuck: isStuck } = row;
  return {
    id,
    start: x402SessionStart(row),
    isStuck,
    hint: messageNames.sessionEnded,
    facts: { session_id: id, chain },
  };
}

/** Its workflow needs no hints: the server knows when the next attempt is due. */
function webhookDelivery(row: DeliveryRow): Visitable {
  const { id, webhook_id } = row;
  const facts = { delivery_id: id, webhook_id };
  return { id, start: webhookDeliveryStart(row), isStuck: false, hint: undefined, facts };
}

export const kinds: readonly VisitedKind[] = [
  {
    table: 'transactions',
    workflow: workflowNames.transaction,
    word: 'payment',
    list: async (pool, o) => (await listUnattended(pool, o)).map(transaction),
    listEnded: async (pool, o) => (await listEnded(pool, o)).map(transaction),
  },
  {
    table: 'x402_payments',
    workflow: workflowNames.x402Payment,
    word: 'payment',
    list: async (pool, { limit }) =>
      (await listUnattendedX402(pool, { table: 'x402_payments', limit })).map(x402Payment),
    listEnded: async (pool, { ended }) =>
      (await listEndedX402(pool, { table: 'x402_payments', ended })).map(x402Payment),
  },
  {
    table: 'x402_sessions',
    workflow: workflowNames.x402Session,
    word: 'session',
    list: async (pool, { limit }) =>
      (await listUnattendedX402(pool, { table: 'x402_sessions', limit })).map(x402Session),
    listEnded: async (pool, { ended }) =>
      (await listEndedX402(pool, { table: 'x402_sessions', ended })).map(x402Session),
  },
  {
    table: 'webhook_deliveries',
    workflow: workflowNames.webhookDelivery,
    word: 'delivery',
    list: async (pool, { limit }) => (await listLateDeliveries(pool, { limit })).map(webhookDelivery),
    listEnded: async (pool, { ended }) => (await listEndedDeliveries(pool, { ended })).map(webhookDelivery),
  },
];
