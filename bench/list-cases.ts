import { countAuditLogs, insertAuditLogs, listAuditLogs } from '../shared/db/audit-logs.ts';
import { countDeliveries, listDeliveries } from '../shared/db/delivery-history.ts';
import { countEvents, findEvent, listEvents, storeEvent } from '../shared/db/events.ts';
import type { Pool } from '../shared/db/pool.ts';
import { countTransactions, findTransaction, insertTransaction, listTransactions } from '../shared/db/transactions.ts';
import { insertWebhookAttempt } from '../shared/db/webhook-attempts.ts';
import { insertDeliveries } from '../shared/db/webhook-deliveries.ts';
import { newId } from '../shared/ids.ts';
import { big, type LoadedList } from './list-rows.ts';

/** Entries of a page where nobody asks for another number. */
const pageSize = 20;

/** One list as the api reads it, and how a row is added to it. */
export interface ListCase {
  readonly list: LoadedList;
  readonly append: (pool: Pool) => Promise<unknown>;
  /** First pages with their totals, by what they are filtered by. */
  readonly pages: Readonly<Record<string, (pool: Pool) => Promise<unknown>>>;
  readonly page: (pool: Pool, window: { limit: number; offset: number }) => Promise<readonly unknown[]>;
}

/** The total first, then the page, as the api does. */
function firstPages<Filter>(
  count: (pool: Pool, filter: Filter) => Promise<number>,
  list: (pool: Pool, filter: Filter & { limit: number; offset: number }) => Promise<readonly unknown[]>,
  filters: Readonly<Record<string, Filter>>,
): Record<string, (pool: Pool) => Promise<void>> {
  return Object.fromEntries(
    Object.entries(filters).map(([name, filter]) => [
      name,
      async (pool: Pool) => {
        const total = await count(pool, filter);
        const rows = await list(pool, { ...filter, limit: pageSize, offset: 0 });
        if (rows.length !== Math.min(total, pageSize))
          throw new Error(`The list by ${name} has ${total} entries, and a first page of ${rows.length}.`);
      },
    ]),
  );
}

const accountId = big.account;
const ofAgent = { accountId, agentId: big.agent };
const idOf = (prefix: string, i: number) => `${prefix}_${String(i).padStart(26, '0')}`;
/** A row that is there whatever the number of rows. */
const someRow = 4_242;

const events: ListCase = {
  list: 'events',
  append: (pool) =>
    storeEvent(pool, {
      ...ofAgent,
      type: 'payment.pending',
      resourceType: 'transaction',
      resourceId: newId('tx'),
      data: { id: 'tx_new', status: 'pending' },
    }),
  pages: {
    ...firstPages(countEvents, listEvents, {
      all: { accountId },
      'by type': { accountId, type: 'payment.completed' },
      'by type, one of a hundred': { accountId, type: 'payment.failed' },
      'by type, rare': { accountId, type: 'agent.low_gas' },
      'by resource': { accountId, resourceId: `tx_${someRow / 2}` },
    }),
    'one by its id': (pool) => findEvent(pool, { id: idOf('evt', someRow), accountId }),
  },
  page: (pool, window) => listEvents(pool, { accountId, ...window }),
};

let lastSeq = 1_000_000_000;
const auditLogs: ListCase = {
  list: 'audit_logs',
  append: (pool) =>
    insertAuditLogs(pool, [
      {
        ...{ id: newId('aud'), account_id: accountId, seq: ++lastSeq, action: 'transaction.created' },
        ...{ actor_type: 'api_key', actor_id: 'key_1', actor_name: null, agent_id: big.agent },
        ...{ resource_type: 'transaction', resource_id: newId('tx'), result: 'success' },
        ...{ ip_address: null, user_agent: null, request_id: null, changes: null, metadata: {} },
        ...{ prev_hash: '0'.repeat(64), hash: '0'.repeat(64), created_at: new Date() },
      },
    ]),
  pages: firstPages(countAuditLogs, listAuditLogs, {
    all: { accountId },
    'by agent': ofAgent,
    'by result': { accountId, result: 'denied' },
    'by result, rare': { accountId, result: 'error' },
    'by agent and result': { ...ofAgent, result: 'denied' },
    'by agent and result, rare': { ...ofAgent, result: 'error' },
    'by action': { accountId, action: 'transaction.signed' },
    'by action, rare': { accountId, action: 'webhook.created' },
    'by actor': { accountId, actorId: 'key_2' },
    'by kind of resource, rare': { accountId, resourceType: 'webhook' },
    'by resource': { accountId, resourceId: `tx_${someRow / 3}` },
  }),
  page: (pool, window) => listAuditLogs(pool, { accountId, ...window }),
};

const ofWebhook = { webhookId: big.webhook };
const deliveries: ListCase = {
  list: 'webhook_deliveries',
  async append(pool) {
    const [row] = await insertDeliveries(pool, {
      ...{ accountId, webhookIds: [big.webhook], kind: 'event' },
      ...{ eventId: newId('evt'), eventType: 'payment.pending' },
    });
    const outcome = {
      ...{ statusCode: 200, responseTimeMs: 25, responseBody: '{"received":true}' },
      ...{ failureReason: null, failureMessage: null },
    };
    await insertWebhookAttempt(pool, { deliveryId: row!.id, number: 1, begunAt: new Date(), outcome });
  },
  pages: firstPages(countDeliveries, listDeliveries, {
    all: ofWebhook,
    'by status': { ...ofWebhook, status: 'failed' },
    'by kind of event': { ...ofWebhook, eventType: 'payment.completed' },
    'by kind of event, rare': { ...ofWebhook, eventType: 'webhook.disabled' },
    'by event': { ...ofWebhook, eventId: idOf('evt', someRow) },
  }),
  page: (pool, window) => listDeliveries(pool, { ...ofWebhook, ...window }),
};

const transactions: ListCase = {
  list: 'transactions',
  append: (pool) =>
    insertTransaction(pool, {
      ...ofAgent,
      ...{ id: newId('tx'), walletId: big.wallet, chain: 'eip155:31337', token: 'USDC', asset: 'native', decimals: 6 },
      ...{ amountMinor: 1n, fromAddress: '0xa', toAddress: '0xb', memo: undefined },
    }),
  pages: {
    ...firstPages(countTransactions, listTransactions, {
      all: { accountId },
      'by agent': ofAgent,
      'by status': { accountId, status: 'failed' },
      'by status, pending': { accountId, status: 'pending' },
      'by agent and status': { ...ofAgent, status: 'failed' },
    }),
    'one by its id': (pool) => findTransaction(pool, { id: idOf('tx', someRow), accountId }),
  },
  page: (pool, window) => listTransactions(pool, { accountId, ...window }),
};

export const listCases: readonly ListCase[] = [events, auditLogs, deliveries, transactions];
