import type { JWK } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { getDelivery } from '../../../shared/db/webhook-deliveries.ts';
import { getWebhook, type WebhookRow } from '../../../shared/db/webhooks.ts';
import { newId } from '../../../shared/ids.ts';
import { renderWebhook } from '../../../shared/render-webhook.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { createTestDeliver } from '../../support/deliver.ts';
import { type Answering, startReceiver, type TestReceiver, verify } from '../../support/receiver.ts';
import {
  attemptsOf,
  insertTestDelivery,
  insertTestWebhook,
  newSecret,
  newSecretKey,
  secretBox,
} from '../../support/webhook-rows.ts';

let database: TestDatabase;
let pool: Pool;
let key: JWK;
let target: TestReceiver;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test', max: 40 });
  key = await newSecretKey();
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function receiver(answer?: Answering): Promise<TestReceiver> {
  target = await startReceiver();
  stops.push(target.stop);
  if (answer) target.answer(answer);
  return target;
}
const says =
  (status: number): Answering =>
  (response) =>
    void response.writeHead(status).end();
const webhookAt = ({ url }: TestReceiver) => insertTestWebhook(pool, { url, key });
const now = (webhook: WebhookRow) => getWebhook(pool, { id: webhook.id });
const failingFor = (webhook: WebhookRow, interval: string) =>
  pool.query('update webhooks set failing_since = now() - $2::interval where id = $1', [webhook.id, interval]);
async function disabledEvents(webhook: WebhookRow) {
  const { rows } = await pool.query<{ data: unknown }>(
    `select data from events where type = 'webhook.disabled' and resource_id = $1 and account_id = $2`,
    [webhook.id, webhook.account_id],
  );
  return rows.map(({ data }) => data);
}
async function auditOf(webhook: WebhookRow) {
  const { rows } = await pool.query<{ action: string; actor_type: string; result: string; changes: unknown }>(
    'select action, actor_type, result, changes from audit_inbox where resource_id = $1',
    [webhook.id],
  );
  return rows;
}

describe('a webhook that is disabled', () => {
  it('F41: is so at once when it answers 410: one event, one audit entry, no other attempt', async () => {
    const webhook = await webhookAt(await receiver(says(410)));
    const other = await insertTestWebhook(pool, { url: target.url, key, accountId: webhook.account_id });
    const { id } = await insertTestDelivery(pool, { webhook });
    const { attempt, call } = createTestDeliver({ pool, key });
    expect(await attempt(id)).toMatchObject({ status: 'failed', status_code: 410, next_attempt_at: null, attempt: 1 });
    const row = (await now(webhook))!;
    expect(row).toMatchObject({ status: 'disabled', disabled_reason: expect.stringMatching(/410 Gone/) });
    expect(await disabledEvents(webhook)).toEqual([JSON.parse(JSON.stringify(renderWebhook(row)))]);
    const { rows: told } = await pool.query(
      `select webhook_id, kind from webhook_deliveries where event_type = 'webhook.disabled' and account_id = $1`,
      [webhook.account_id],
    );
    expect(told).toEqual([{ webhook_id: other.id, kind: 'event' }]);
    expect(await auditOf(webhook)).toEqual([
      {
        ...{ action: 'webhook.disabled', actor_type: 'system', result: 'success' },
        changes: {
          before: { status: 'active' },
          after: { status: 'disabled', disabled_reason: row.disabled_reason },
        },
      },
    ]);
    expect(await call(id)).toEqual({ status: 'failed' });
    expect(target.received).toHaveLength(1);
  });

  it('is so when it has failed for five days, by one event although many deliveries fail at once', async () => {
    const webhook = await webhookAt(await receiver(says(500)));
    await failingFor(webhook, '5 days 1 second');
    const rows = await Promise.all(Array.from({ length: 20 }, () => insertTestDelivery(pool, { webhook })));
    // As two processes have them.
    const [one, two] = [createTestDeliver({ pool, key }), createTestDeliver({ pool, key })];
    await Promise.all(rows.map(({ id }, index) => (index % 2 ? one : two).call(id)));
    expect(await now(webhook)).toMatchObject({
      status: 'disabled',
      disabled_reason: expect.stringMatching(/^No attempt has succeeded since \d{4}-/),
    });
    expect(await disabledEvents(webhook)).toHaveLength(1);
    expect(await auditOf(webhook)).toHaveLength(1);
    // What was not attempted at that moment ends without a request.
    for (const { id } of rows) await one.attempt(id);
    for (const { id } of rows) expect(await getDelivery(pool, { id })).toMatchObject({ status: 'failed' });
    expect(target.received.length).toBeLessThanOrEqual(20);
    expect(await disabledEvents(webhook)).toHaveLength(1);
  });

  it('is not so before, nor by a success, which ends the count', async () => {
    const webhook = await webhookAt(await receiver(says(500)));
    const { attempt } = createTestDeliver({ pool, key });
    await failingFor(webhook, '4 days 23 hours');
    await attempt((await insertTestDelivery(pool, { webhook })).id);
    expect(await now(webhook)).toMatchObject({ status: 'active', failing_since: expect.any(Date) });
    await failingFor(webhook, '6 days');
    target.answer(says(200));
    await attempt((await insertTestDelivery(pool, { webhook })).id);
    expect(await now(webhook)).toMatchObject({ status: 'active', failing_since: null });
    target.answer(says(500));
    const { updated_at } = await attempt((await insertTestDelivery(pool, { webhook })).id);
    expect(await now(webhook)).toMatchObject({ status: 'active', failing_since: updated_at });
    expect(await disabledEvents(webhook)).toEqual([]);
  });

  it('is not told of its own end, and keeps its first reason', async () => {
    const webhook = await webhookAt(await receiver(says(410)));
    const rows = await Promise.all(Array.from({ length: 5 }, () => insertTestDelivery(pool, { webhook })));
    const { call } = createTestDeliver({ pool, key });
    await Promise.all(rows.map(({ id }) => call(id)));
    const { disabled_reason } = (await now(webhook))!;
    expect(disabled_reason).toMatch(/410/);
    expect(await disabledEvents(webhook)).toHaveLength(1);
    const { rows: own } = await pool.query(
      `select id from webhook_deliveries where webhook_id = $1 and event_type = 'webhook.disabled'`,
      [webhook.id],
    );
    expect(own).toEqual([]);
  });
});

describe('a webhook that is not active', () => {
  const states = {
    inactive: `update webhooks set status = 'inactive' where id = $1`,
    disabled: `update webhooks set status = 'disabled', disabled_reason = 'Because.' where id = $1`,
    deleted: `update webhooks set deleted_at = now(), secret = null, secret_key_id = null, secret_format = null where id = $1`,
  };
  it.each(Object.entries(states))('%s between two attempts: is sent nothing more', async (state, statement) => {
    const webhook = await webhookAt(await receiver(says(500)));
    const { id } = await insertTestDelivery(pool, { webhook });
    const { attempt } = createTestDeliver({ pool, key });
    expect(await attempt(id)).toMatchObject({ status: 'pending', attempt: 1 });
    await pool.query(statement, [webhook.id]);
    expect(await attempt(id)).toMatchObject({
      ...{ status: 'failed', attempt: 1, next_attempt_at: null, failure_reason: null, status_code: null },
      failure_message: expect.stringContaining(state),
    });
    expect(await attemptsOf(pool, id)).toHaveLength(1);
    expect(target.received).toHaveLength(1);
  });

  it.each([
    ['inactive', 200],
    ['disabled', 200],
    ['inactive', 500],
    ['inactive', 410],
  ] as const)('%s: is sent a test all the same, once, which changes nothing of it (%i)', async (state, status) => {
    const webhook = await webhookAt(await receiver(says(status)));
    await pool.query(states[state], [webhook.id]);
    const before = await now(webhook);
    const { id } = await insertTestDelivery(pool, { webhook, kind: 'test' });
    const { attempt } = createTestDeliver({ pool, key });
    const row = await attempt(id);
    expect(row).toMatchObject({ attempt: 1, status_code: status, next_attempt_at: null });
    expect(row.status).toBe(status === 200 ? 'succeeded' : 'failed');
    expect(verify(webhook.plainSecret, target.received[0]!)).toMatchObject({ type: 'webhook.test' });
    expect(await now(webhook)).toEqual(before);
    await attempt(id);
    expect(target.received).toHaveLength(1);
  });

  it.each([500, 410])('and one that is, is not held to what it answers to a test (%i)', async (status) => {
    const webhook = await webhookAt(await receiver(says(status)));
    const before = await now(webhook);
    const { id } = await insertTestDelivery(pool, { webhook, kind: 'test' });
    expect(await createTestDeliver({ pool, key }).attempt(id)).toMatchObject({ status: 'failed', attempt: 1 });
    expect(await now(webhook)).toEqual(before);
    await failingFor(webhook, '6 days');
    target.answer(says(200));
    await createTestDeliver({ pool, key }).attempt((await insertTestDelivery(pool, { webhook, kind: 'test' })).id);
    expect((await now(webhook))!.failing_since).not.toBeNull();
  });

  it('deleted: is not sent a test', async () => {
    const webhook = await webhookAt(await receiver());
    await pool.query(states.deleted, [webhook.id]);
    const { id } = await insertTestDelivery(pool, { webhook, kind: 'test' });
    expect(await createTestDeliver({ pool, key }).attempt(id)).toMatchObject({ status: 'failed', attempt: 0 });
    expect(target.received).toHaveLength(0);
  });

  it('by its owner while an attempt is under way: 410 disables nothing and ends the delivery', async () => {
    const webhook = await webhookAt(
      await receiver((response) => {
        void pool.query(states.inactive, [webhook.id]).then(() => response.writeHead(410).end());
      }),
    );
    const { id } = await insertTestDelivery(pool, { webhook });
    expect(await createTestDeliver({ pool, key }).attempt(id)).toMatchObject({ status: 'failed', status_code: 410 });
    expect(await now(webhook)).toMatchObject({ status: 'inactive', disabled_reason: null, failing_since: null });
    expect(await disabledEvents(webhook)).toEqual([]);
  });
});

describe('a delivery', () => {
  it('that is asked for before its time makes no request', async () => {
    const webhook = await webhookAt(await receiver(says(500)));
    const { id } = await insertTestDelivery(pool, { webhook });
    const { call, attempt } = createTestDeliver({ pool, key });
    await attempt(id);
    await pool.query(`update webhook_deliveries set next_attempt_at = now() + interval '1 hour' where id = $1`, [id]);
    const called = await call(id);
    expect(called).toMatchObject({ again: 'NotYet' });
    const { delayMs } = called as { delayMs: number };
    expect(delayMs).toBeGreaterThan(3_500_000);
    expect(delayMs).toBeLessThanOrEqual(3_600_000);
    expect(target.received).toHaveLength(1);
    expect(await getDelivery(pool, { id })).toMatchObject({ attempt: 1, status: 'pending' });
  });

  it('that has ended makes no request', async () => {
    const webhook = await webhookAt(await receiver());
    const { id } = await insertTestDelivery(pool, { webhook });
    const { call } = createTestDeliver({ pool, key });
    expect([await call(id), await call(id)]).toEqual([{ status: 'succeeded' }, { status: 'succeeded' }]);
    expect(target.received).toHaveLength(1);
  });

  it('whose attempt is made twice at once is noted once', async () => {
    const waiting: (() => void)[] = [];
    const webhook = await webhookAt(
      await receiver((response) => {
        waiting.push(() => response.writeHead(500).end());
        if (waiting.length === 2) for (const answer of waiting) answer();
      }),
    );
    const { id } = await insertTestDelivery(pool, { webhook });
    const [one, two] = [createTestDeliver({ pool, key }), createTestDeliver({ pool, key })];
    const called = await Promise.all([one.call(id), two.call(id)]);
    expect(called.map((each) => 'again' in each && each.again).sort()).toEqual(['AttemptFailed', 'NotYet']);
    expect(await getDelivery(pool, { id })).toMatchObject({ attempt: 1 });
    expect(await attemptsOf(pool, id)).toHaveLength(1);
  });

  it('that does not exist is an error of the caller', async () => {
    await expect(createTestDeliver({ pool, key }).call(newId('dlv'))).rejects.toMatchObject({ type: 'NotFound' });
  });

  it('whose event is gone with its month ends', async () => {
    const webhook = await webhookAt(await receiver());
    const { id, created_at } = await insertTestDelivery(pool, { webhook });
    await pool.query('update webhook_deliveries set event_id = $3 where id = $1 and created_at = $2', [
      id,
      created_at,
      newId('evt'),
    ]);
    expect(await createTestDeliver({ pool, key }).attempt(id)).toMatchObject({
      status: 'failed',
      failure_message: 'The event is not kept any more.',
    });
    expect(target.received).toHaveLength(0);
  });
});

describe('the secret', () => {
  it('that was rotated signs beside the new one while both are valid, and not afterwards', async () => {
    const webhook = await webhookAt(await receiver());
    const { plainSecret: old } = webhook;
    const fresh = newSecret();
    const sealed = await secretBox(key).seal({ secret: fresh, webhookId: webhook.id });
    await pool.query(
      `update webhooks set previous_secret = secret, previous_key_id = secret_key_id, secret = $2,
              previous_until = now() + interval '1 day' where id = $1`,
      [webhook.id, sealed.secret],
    );
    const { attempt } = createTestDeliver({ pool, key });
    await attempt((await insertTestDelivery(pool, { webhook })).id);
    await pool.query(`update webhooks set previous_until = now() where id = $1`, [webhook.id]);
    await attempt((await insertTestDelivery(pool, { webhook })).id);
    const [both, one] = target.received as [(typeof target.received)[number], (typeof target.received)[number]];
    expect(both.headers['webhook-signature']).toMatch(/^v1,[A-Za-z0-9+/=]{44} v1,[A-Za-z0-9+/=]{44}$/);
    for (const secret of [old, fresh]) verify(secret, both);
    expect(one.headers['webhook-signature']).toMatch(/^v1,[A-Za-z0-9+/=]{44}$/);
    verify(fresh, one);
    expect(() => verify(old, one)).toThrow();
  });

  it('that is no base64 signs by its own bytes', async () => {
    const secret = 'whsec_a passphrase, with ö and 日本';
    const webhook = await insertTestWebhook(pool, { url: (await receiver()).url, key, secret });
    await createTestDeliver({ pool, key }).attempt((await insertTestDelivery(pool, { webhook })).id);
    const base64 = Buffer.from(secret.slice('whsec_'.length)).toString('base64');
    verify(`whsec_${base64}`, target.received[0]!);
  });

  it('that cannot be opened is our fault: no request, no attempt, and it is logged without what it is', async () => {
    const webhook = await webhookAt(await receiver());
    const { id } = await insertTestDelivery(pool, { webhook });
    const { call, logged } = createTestDeliver({ pool, key: await newSecretKey() });
    expect(await call(id)).toEqual({ again: 'Fault', delayMs: 300_000 });
    expect(target.received).toHaveLength(0);
    expect(await getDelivery(pool, { id })).toMatchObject({ status: 'pending', attempt: 0, failure_message: null });
    expect(await now(webhook)).toMatchObject({ failing_since: null });
    expect(logged.join()).toContain('a delivery cannot be attempted');
    expect(logged.join()).not.toContain(webhook.secret!);
    expect(await createTestDeliver({ pool, key }).call(id)).toEqual({ status: 'succeeded' });
  });

  it('is nowhere but in the signature: not in the log, the rows or the request', async () => {
    const webhook = await webhookAt(await receiver(says(500)));
    const { id } = await insertTestDelivery(pool, { webhook });
    const { attempt, logged } = createTestDeliver({ pool, key });
    const row = await attempt(id);
    const places = [logged.join(), JSON.stringify(row), JSON.stringify(target.received)].join();
    const raw = Buffer.from(webhook.plainSecret.slice('whsec_'.length), 'base64');
    for (const form of [webhook.plainSecret.slice(6), raw.toString('hex'), raw.toString('base64url')])
      expect(places).not.toContain(form);
  });
});
