import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDeliveryActivities } from '../../../activities/deliveries.ts';
import { createDispatcher } from '../../../activities/dispatch-deliveries.ts';
import { verifyWebhook } from '../../../sdk/webhooks.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createHttpGuard } from '../../../shared/http-guard.ts';
import { createSecretOpener, createSecretSealer } from '../../../shared/webhook-secrets.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createDeliveryWorker } from '../../../worker/deliveries.ts';
import { certificate } from '../../support/certificate.ts';
import { eventually } from '../../support/client.ts';
import { startReceiver, type TestReceiver } from '../../support/receiver.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';
import { startApiProcess } from './api-process.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { createTestWebhook, newSecret } from './webhook-calls.ts';

const patient = { timeoutMs: 60_000 };

describe('what is sent by a call of the api', () => {
  let temporal: OwnTemporal;
  let api: TestApi;
  let account: TestAccount;
  let receiver: TestReceiver;
  let connection: NativeConnection;
  let bundle: Awaited<ReturnType<typeof makeWorkflowBundle>>;
  let stopWorker: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    temporal = await startOwnTemporal();
    api = await startTestApi({ temporalAddress: temporal.address });
    account = await api.account();
    connection = await NativeConnection.connect({ address: temporal.address });
    bundle = await makeWorkflowBundle();
  });
  afterAll(async () => {
    await api?.stop();
    await connection?.close();
    await temporal?.stop();
  });
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await stopWorker?.();
    stopWorker = undefined;
    await receiver.stop();
  });

  /** A worker that delivers, and what starts deliveries. */
  async function serve({ timeoutMs = 15_000 }: { timeoutMs?: number } = {}): Promise<void> {
    const { jwks, publicJwk } = await testWebhookKeys();
    const [{ pool }, logger] = [api, pino({ level: 'silent' })];
    const activities = createDeliveryActivities({
      ...{ pool, clock: databaseClock, logger, livemode: false },
      opener: createSecretOpener({ jwks }),
      seal: createSecretSealer({ publicJwk }),
      guard: createHttpGuard({ allowLoopback: true, extraCa: certificate.cert, timeoutMs }),
    });
    const worker = await createDeliveryWorker({ connection, namespace: 'default', activities, workflowBundle: bundle });
    const running = worker.run();
    const clientConnection = await Connection.connect({ address: temporal.address });
    const dispatcher = createDispatcher({ pool, client: new Client({ connection: clientConnection }), logger });
    dispatcher.start();
    stopWorker = async () => {
      await dispatcher.stop();
      worker.shutdown();
      await running;
      await clientConnection.close();
    };
  }

  const test = (id: string) => account.call('POST', `/api/v1/webhooks/${id}/test`);
  const deliveries = async (id: string) => (await account.call('GET', `/api/v1/webhooks/${id}/deliveries`)).body.data;
  const settled = (id: string) =>
    eventually(
      () => deliveries(id),
      (all: { status: string }[]) => all.every(({ status }) => status !== 'pending'),
      patient,
    );

  it('is a test event, signed and answered with how it ended', async () => {
    await serve();
    const secret = newSecret();
    const webhook = await createTestWebhook(account, { url: receiver.url, secret, events: ['agent.created'] });
    const { status, body } = await test(webhook.id);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      kind: 'test',
      status: 'succeeded',
      attempt: 1,
      status_code: 200,
      failure_reason: null,
      response_body: 'ok',
      next_attempt_at: null,
      attempts: [{ number: 1, status_code: 200 }],
    });
    const [one] = receiver.received;
    const event = verifyWebhook({ payload: one!.body, headers: one!.headers, secret });
    expect(event).toEqual((await account.call('GET', `/api/v1/events/${body.event_id}`)).body);
    expect(event).toMatchObject({ id: body.event_id, type: 'webhook.test', data: webhook });
    expect(receiver.received).toHaveLength(1);
  });

  it('is one attempt only, also to a webhook that is stopped or disabled, and changes nothing of it', async () => {
    await serve();
    receiver.answer((response) => void response.writeHead(410).end('gone'));
    const { id } = await createTestWebhook(account, { url: receiver.url });
    await account.call('PUT', `/api/v1/webhooks/${id}`, { status: 'inactive' });
    const before = (await account.call('GET', `/api/v1/webhooks/${id}`)).body;
    expect((await test(id)).body).toMatchObject({
      status: 'failed',
      attempt: 1,
      status_code: 410,
      failure_reason: 'non_2xx',
      response_body: 'gone',
      next_attempt_at: null,
    });
    expect((await account.call('GET', `/api/v1/webhooks/${id}`)).body).toEqual(before);
    expect(receiver.received).toHaveLength(1);
  });

  it('is waited for as long as a receiver may take', async () => {
    // Less than the 15 s of a real one, so that a machine that is busy does not end the wait of 18 s first.
    await serve({ timeoutMs: 12_000 });
    receiver.answer(() => {});
    const { id } = await createTestWebhook(account, { url: receiver.url });
    expect((await test(id)).body).toMatchObject({ status: 'failed', failure_reason: 'timeout', status_code: null });
  });

  it('is sent once a worker is there, while the call waits for it', async () => {
    const { id } = await createTestWebhook(account, { url: receiver.url });
    const answer = test(id);
    await eventually(
      () => deliveries(id),
      (all: unknown[]) => all.length === 1,
      patient,
    );
    await serve();
    expect((await answer).body).toMatchObject({ status: 'succeeded', attempt: 1 });
  });

  it('is sent once for each key, by two calls at once as well', async () => {
    await serve();
    const { id } = await createTestWebhook(account, { url: receiver.url });
    const keyed = createKeyedCalls({ url: api.url, account });
    const key = newKey();
    const both = await Promise.all([1, 2].map(() => keyed.post(`/webhooks/${id}/test`, {}, withKey(key))));
    expect(both.map(({ status }) => status)).toContain(200);
    for (const { status, body } of both) if (status !== 200) expect(body.code).toBe('idempotency_key_in_progress');
    expect(await keyed.post(`/webhooks/${id}/test`, {}, withKey(key))).toMatchObject({ status: 200, replayed: 'true' });
    expect(receiver.received).toHaveLength(1);
  });

  it('is not sent again where the process that was asked has died: a repeat gets the answer of the same delivery', async () => {
    await serve();
    let release = () => {};
    receiver.answer((response) => {
      release = () => void response.end('at last');
    });
    const { id } = await createTestWebhook(account, { url: receiver.url });
    const mortal = await startApiProcess({ databaseUrl: api.databaseUrl, temporalAddress: temporal.address });
    const key = newKey();
    const lost = createKeyedCalls({ url: mortal.url, account })
      .post(`/webhooks/${id}/test`, {}, withKey(key))
      .catch(() => 'lost');
    await eventually(
      async () => receiver.received.length,
      (count) => count === 1,
      patient,
    );
    await mortal.kill();
    expect(await lost).toBe('lost');
    const keyed = createKeyedCalls({ url: api.url, account });
    await api.pool.query('update idempotency_keys set lease_until = now() where account_id = $1', [account.id]);
    const again = keyed.post(`/webhooks/${id}/test`, {}, withKey(key));
    // Time for the repeat to look at a delivery that is under way, for which it has to wait.
    await delay(1_000);
    release();
    expect(await again).toMatchObject({
      status: 200,
      replayed: 'true',
      body: { status: 'succeeded', response_body: 'at last' },
    });
    expect([receiver.received.length, (await deliveries(id)).length]).toEqual([1, 1]);
  });

  it('is an event once more: the same id and the same body to the byte, signed by both secrets after a rotation', async () => {
    await serve();
    const [old, current] = [newSecret(), 'whsec_the next secret, in words'];
    const { id } = await createTestWebhook(account, { url: receiver.url, secret: old, events: ['agent.created'] });
    await account.call('POST', '/api/v1/agents', { agent_name: 'Zoë ☕', chain: 'eip155:31337' });
    const [first] = (await settled(id)) as unknown as { id: string }[];
    await account.call('POST', `/api/v1/webhooks/${id}/rotate-secret`, { secret: current });
    const { body } = await account.call('POST', `/api/v1/webhooks/${id}/deliveries/${first!.id}/redeliver`);
    expect(body).toMatchObject({ kind: 'redelivery', status: 'pending', attempt: 0 });
    expect(await settled(id)).toMatchObject([
      { id: body.id, status: 'succeeded', kind: 'redelivery' },
      { id: first!.id, status: 'succeeded', kind: 'event' },
    ]);
    const [one, two] = receiver.received;
    expect(two!.body).toBe(one!.body);
    expect(two!.headers['webhook-id']).toBe(one!.headers['webhook-id']);
    for (const secret of [old, current])
      expect(verifyWebhook({ payload: two!.body, headers: two!.headers, secret }).type).toBe('agent.created');
    expect(two!.headers['webhook-signature']!.split(' ')).toHaveLength(2);
    expect(one!.headers['webhook-signature']!.split(' ')).toHaveLength(1);
  });

  it('goes nowhere once the webhook is deleted', async () => {
    const { id } = await createTestWebhook(account, { url: receiver.url, events: ['agent.created'] });
    await account.call('POST', '/api/v1/agents', { agent_name: 'late', chain: 'eip155:31337' });
    await account.call('DELETE', `/api/v1/webhooks/${id}`);
    await serve();
    const { rows } = await eventually(
      () => api.pool.query('select status, failure_message from webhook_deliveries where webhook_id = $1', [id]),
      (found) => found.rows[0].status !== 'pending',
      patient,
    );
    expect(rows).toEqual([
      { status: 'failed', failure_message: 'The webhook was deleted before the event could be delivered.' },
    ]);
    expect(receiver.received).toHaveLength(0);
  });
});
