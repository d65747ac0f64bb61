import { Client, Connection } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { JWK } from 'jose';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDispatcher } from '../../activities/dispatch-deliveries.ts';
import type { Loop } from '../../activities/loop.ts';
import { createStartMissing } from '../../activities/start-missing.ts';
import { freePort } from '../../dev/ports.ts';
import { createPool, inTransaction, type Pool } from '../../shared/db/pool.ts';
import { claimDeliveries } from '../../shared/db/webhook-deliveries.ts';
import type { WebhookRow } from '../../shared/db/webhooks.ts';
import type { ReconcileResult } from '../../shared/domain/reconcile.ts';
import { webhookDeliveryStart } from '../../shared/webhook-delivery-start.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type OwnTemporal, startOwnTemporal } from '../support/temporal.ts';
import {
  insertTestAccount,
  insertTestDelivery,
  insertTestEvent,
  insertTestWebhook,
  newSecretKey,
} from '../support/webhook-rows.ts';

/** No worker runs here: what was started stays where it is. */
const perWebhook = 25;
const logger = pino({ level: 'silent' });
const url = 'https://hooks.example.com/';

let temporal: OwnTemporal;
let connection: Connection;
let client: Client;
let key: JWK;
let database: TestDatabase;
let pool: Pool;
let loops: Loop[] = [];

beforeAll(async () => {
  temporal = await startOwnTemporal();
  connection = await Connection.connect({ address: temporal.address });
  client = new Client({ connection });
  key = await newSecretKey();
});
afterAll(async () => {
  await connection?.close();
  await temporal?.stop();
});
/** Each test has a database of its own: dispatchers look at all of it. */
beforeEach(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterEach(async () => {
  await Promise.all(loops.map((loop) => loop.stop()));
  loops = [];
  await pool.end();
  await database.drop();
});

function dispatch({ by = client }: { by?: Client } = {}): Loop {
  const loop = createDispatcher({ pool, client: by, logger });
  loops.push(loop);
  loop.start();
  return loop;
}
const webhook = (accountId?: string) => insertTestWebhook(pool, { url, key, ...(accountId && { accountId }) });
async function deliveries(of: WebhookRow, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) ids.push((await insertTestDelivery(pool, { webhook: of })).id);
  return ids;
}
const statusOf = async (id: string) => (await client.workflow.getHandle(id).describe()).status.name;
const isRunning = (id: string) =>
  eventually(
    () => statusOf(id),
    (name) => name === 'RUNNING',
  );
async function dispatched(of?: WebhookRow): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from webhook_deliveries
     where dispatched_at is not null and ($1::text is null or webhook_id = $1)`,
    [of?.id ?? null],
  );
  return rows[0]!.count;
}
const isDispatched = (count: number, of?: WebhookRow) =>
  eventually(
    () => dispatched(of),
    (seen) => seen === count,
  );
/** One run of the schedule's activity, as one worker has it. */
function reconcile(): Promise<ReconcileResult> {
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return environment.run(createStartMissing({ pool, client, logger }));
}
const age = (changes: string) => pool.query(`update webhook_deliveries set ${changes}`);

describe('a delivery that is stored', () => {
  it('gets its workflow, once, also by several processes at once', async () => {
    const accountId = await insertTestAccount(pool);
    for (let index = 0; index < 3; index += 1) await webhook(accountId);
    for (let index = 0; index < 3; index += 1) dispatch();
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1) ids.push(...(await insertTestEvent(pool, { accountId })));
    expect(ids).toHaveLength(15);
    for (const id of ids) await isRunning(id);
    await isDispatched(15);
    const description = await client.workflow.getHandle(ids[0]!).describe();
    expect(description.taskQueue).toBe('wallet-deliveries');
    expect(description.priority?.fairnessKey).toBe(accountId);
  });

  it('by a database transaction that is undone gets none', async () => {
    const of = await webhook();
    dispatch();
    const undone = inTransaction(pool, async (db) => {
      await db.query(
        `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type)
         values ('dlv_undone', $1, $2, 'evt_1', 'payment.failed')`,
        [of.account_id, of.id],
      );
      await inTransaction(pool, (other) => claimDeliveries(other, { perWebhook, limit: 10 }));
      throw new Error('on purpose');
    });
    await expect(undone).rejects.toThrow('on purpose');
    const [later] = await deliveries(of, 1);
    await isRunning(later!);
    await expect(statusOf('dlv_undone')).rejects.toThrow();
  });

  it('while Temporal is away is given back, and gets its workflow later', async () => {
    const [id] = await deliveries(await webhook(), 1);
    const lazy = Connection.lazy({ address: `127.0.0.1:${await freePort()}` });
    const stopped = dispatch({ by: new Client({ connection: lazy }) });
    await isDispatched(1);
    await isDispatched(0);
    await stopped.stop();
    await isDispatched(0);
    await lazy.close();
    dispatch();
    await isRunning(id!);
    await isDispatched(1);
  });
});

describe('many deliveries', () => {
  it('to one receiver are begun a few at a time, the oldest first', async () => {
    const of = await webhook();
    const ids = await deliveries(of, 60);
    dispatch();
    dispatch();
    await isDispatched(perWebhook);
    const { rows } = await pool.query<{ id: string }>(
      'select id from webhook_deliveries where dispatched_at is not null order by created_at, id',
    );
    expect(rows.map(({ id }) => id)).toEqual(ids.slice(0, perWebhook));
    // One that has failed once is under way no more, though it is not over.
    await pool.query(`update webhook_deliveries set attempt = 1 where id = any ($1)`, [ids.slice(0, 10)]);
    await pool.query(`update webhook_deliveries set status = 'succeeded', next_attempt_at = null where id = any ($1)`, [
      ids.slice(10, 15),
    ]);
    await isDispatched(perWebhook + 15);
    for (const id of ids.slice(0, perWebhook + 15)) await isRunning(id);
    await expect(statusOf(ids[perWebhook + 15]!)).rejects.toThrow();
  });

  it('to one receiver do not hold up another one, of the same account or not', async () => {
    const busy = await webhook();
    await pool.query(
      `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type)
       select 'dlv_backlog_' || n, $1, $2, 'evt_1', 'payment.failed' from generate_series(1, 10000) n`,
      [busy.account_id, busy.id],
    );
    dispatch();
    await isDispatched(perWebhook, busy);
    for (const other of [await webhook(busy.account_id), await webhook()])
      for (const id of await deliveries(other, 3)) await isRunning(id);
    expect(await dispatched(busy)).toBe(perWebhook);
  });

  it('of several receivers are taken in turn', async () => {
    const hooks = [await webhook(), await webhook(), await webhook()];
    for (const hook of hooks) await deliveries(hook, 10);
    const taken = await inTransaction(pool, (db) => claimDeliveries(db, { perWebhook, limit: 6 }));
    const counts = hooks.map(({ id }) => taken.filter(({ webhook_id }) => webhook_id === id).length);
    expect(counts).toEqual([2, 2, 2]);
  });
});

describe('the reconcile schedule', () => {
  it('starts one that was taken and whose workflow was never started', async () => {
    const [id, other] = await deliveries(await webhook(), 2);
    await inTransaction(pool, (db) => claimDeliveries(db, { perWebhook, limit: 10 }));
    expect(await reconcile()).toMatchObject({ visited: 0, started: 0 });
    await age(`dispatched_at = now() - interval '61 seconds', next_attempt_at = now() - interval '61 seconds'`);
    const results = await Promise.all([reconcile(), reconcile()]);
    expect(results.reduce((total, { started }) => total + started, 0)).toBe(2);
    for (const each of [id, other]) await isRunning(each!);
    expect(await reconcile()).toMatchObject({ visited: 0, started: 0 });
  });

  it('leaves those alone that nobody has dispatched: they wait for their turn', async () => {
    await deliveries(await webhook(), 3);
    await age(`next_attempt_at = now() - interval '1 hour'`);
    expect(await reconcile()).toMatchObject({ visited: 0, started: 0 });
  });

  it('does not look at ten thousand that wait for their time', async () => {
    const of = await webhook();
    await pool.query(
      `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type, attempt, next_attempt_at, dispatched_at)
       select 'dlv_waiting_' || n, $1, $2, 'evt_1', 'payment.failed', 3, now() + interval '1 hour', now() - interval '1 day'
       from generate_series(1, 10000) n`,
      [of.account_id, of.id],
    );
    expect(await reconcile()).toMatchObject({ visited: 0, started: 0 });
  });

  it('starts one anew whose workflow was ended by hand, soon and before its time; and one that is late', async () => {
    const [soon, late, over] = (await deliveries(await webhook(), 3)) as [string, string, string];
    dispatch();
    for (const id of [soon, late, over]) await isRunning(id);
    await age(`attempt = 2, next_attempt_at = now() + interval '2 hours', dispatched_at = now() - interval '1 hour'`);
    await pool.query(`update webhook_deliveries set next_attempt_at = now() - interval '2 minutes' where id = $1`, [
      late,
    ]);
    await pool.query(`update webhook_deliveries set status = 'failed', next_attempt_at = null where id = $1`, [over]);
    for (const id of [soon, late, over]) await client.workflow.getHandle(id).terminate('by hand');
    let started = 0;
    await eventually(
      async () => {
        started += (await reconcile()).started;
        return started;
      },
      (seen) => seen === 2,
    );
    for (const id of [soon, late]) await isRunning(id);
    expect(await statusOf(over)).toBe('TERMINATED');
  });

  it('lets one be that has its workflow and waits for a worker', async () => {
    const [id] = await deliveries(await webhook(), 1);
    const row = (await pool.query('select * from webhook_deliveries where id = $1', [id])).rows[0];
    const { firstExecutionRunId } = await client.workflow.start('webhookDelivery', webhookDeliveryStart(row));
    await age(`dispatched_at = now() - interval '1 hour', next_attempt_at = now() - interval '1 hour'`);
    expect(await reconcile()).toMatchObject({ visited: 1, started: 0, nudged: 0 });
    expect((await client.workflow.getHandle(id!).describe()).runId).toBe(firstExecutionRunId);
    // Not again before some minutes.
    expect(await reconcile()).toMatchObject({ visited: 0, started: 0 });
  });
});
