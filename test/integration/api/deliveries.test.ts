import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertEvent } from '../../../shared/db/events.ts';
import { newId } from '../../../shared/ids.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { auditOf, createTestWebhook } from './webhook-calls.ts';

const nobody = '127.0.0.1:1';

describe('deliveries', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  const call = (method: string, path: string, body?: unknown) => account.call(method, `/api/v1/webhooks${path}`, body);

  /** What happens when something happens. */
  async function happen(type: 'payment.completed' | 'payment.failed' = 'payment.completed') {
    const resourceId = newId('tx');
    const event = { type, resourceType: 'transaction', resourceId, agentId: null, data: { id: resourceId } } as const;
    await insertEvent(api.pool, { accountId: account.id, ...event });
  }

  /** As a worker notes that an attempt has failed, or succeeded. */
  async function attempt(deliveryId: string, number: number, succeeded = false) {
    const outcome = succeeded
      ? [204, 12, null, null, '']
      : [503, 41, 'non_2xx', 'The receiver answered 503.', 'Service Unavailable'];
    await api.pool.query(
      `insert into webhook_attempts (delivery_id, number, status_code, response_time_ms, failure_reason,
                                     failure_message, response_body, created_at)
       values ($1, $2, $3, $4, $5, $6, $7, now())`,
      [deliveryId, number, ...outcome],
    );
    await api.pool.query(
      `update webhook_deliveries
       set attempt = $2, status = $8, next_attempt_at = case when $8 = 'pending' then now() + interval '5 s' end,
           status_code = $3, response_time_ms = $4, failure_reason = $5, failure_message = $6, response_body = $7
       where id = $1`,
      [deliveryId, number, ...outcome, succeeded ? 'succeeded' : 'pending'],
    );
  }

  it('are there as soon as something has happened, for active webhooks that want to know', async () => {
    const [all, some, other, stopped] = [
      await createTestWebhook(account),
      await createTestWebhook(account, { events: ['payment.completed'] }),
      await createTestWebhook(account, { events: ['payment.failed'] }),
      await createTestWebhook(account),
    ];
    await call('PUT', `/${stopped.id}`, { status: 'inactive' });
    await happen();
    const totals = [];
    for (const { id } of [all, some, other, stopped]) totals.push((await call('GET', `/${id}/deliveries`)).body.total);
    expect(totals).toEqual([1, 1, 0, 0]);
    const { body } = await call('GET', `/${all.id}/deliveries`);
    expect(body.data[0]).toEqual({
      id: expect.stringMatching(/^dlv_/),
      webhook_id: all.id,
      event_id: expect.stringMatching(/^evt_/),
      event_type: 'payment.completed',
      kind: 'event',
      attempt: 0,
      status: 'pending',
      status_code: null,
      response_time_ms: null,
      failure_reason: null,
      failure_message: null,
      response_body: null,
      next_attempt_at: expect.stringMatching(/Z$/),
      created_at: expect.stringMatching(/Z$/),
      attempts: [],
    });
    expect((await call('GET', `/${all.id}/deliveries/${body.data[0].id}`)).body).toEqual(body.data[0]);
  });

  it('tell of each attempt, the oldest first, and of the last one beside them', async () => {
    const webhook = await createTestWebhook(account);
    await happen();
    const [{ id }] = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    await attempt(id, 1);
    const failed = {
      status_code: 503,
      response_time_ms: 41,
      failure_reason: 'non_2xx',
      failure_message: 'The receiver answered 503.',
      response_body: 'Service Unavailable',
    };
    const first = { number: 1, ...failed, created_at: expect.any(String) };
    expect((await call('GET', `/${webhook.id}/deliveries/${id}`)).body).toMatchObject({
      attempt: 1,
      status: 'pending',
      next_attempt_at: expect.any(String),
      ...failed,
      attempts: [first],
    });
    await attempt(id, 2, true);
    const passed = { status_code: 204, failure_reason: null, failure_message: null, response_body: '' };
    expect((await call('GET', `/${webhook.id}/deliveries`)).body.data[0]).toMatchObject({
      attempt: 2,
      status: 'succeeded',
      next_attempt_at: null,
      ...passed,
      attempts: [first, { number: 2, ...passed, response_time_ms: 12 }],
    });
  });

  it('are found by status, kind of event, event and time, with the right total for each', async () => {
    const webhook = await createTestWebhook(account);
    for (const type of ['payment.completed', 'payment.failed', 'payment.completed'] as const) await happen(type);
    const deliveries = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    const [third, second, first] = deliveries;
    await attempt(first.id, 1, true);
    const { data } = (await call('GET', `/${webhook.id}/deliveries`)).body;
    expect(data.map(({ attempts }: { attempts: unknown[] }) => attempts.length)).toEqual([0, 0, 1]);
    const list = async (query: string) => {
      const { body } = await call('GET', `/${webhook.id}/deliveries${query}`);
      return [query, body.data.map(({ id }: { id: string }) => id), body.total];
    };
    const expected = (query: string, found: { id: string }[]) => [query, found.map(({ id }) => id), found.length];
    for (const [query, found] of [
      ['', [third, second, first]],
      ['?status=pending', [third, second]],
      ['?status=succeeded', [first]],
      ['?status=failed', []],
      ['?event_type=payment.failed', [second]],
      ['?event_type=payment.completed&status=pending', [third]],
      [`?event_id=${first.event_id}`, [first]],
      [`?event_id=${newId('evt')}`, []],
      [`?from=${first.created_at}`, [third, second, first]],
      [`?to=${first.created_at}`, []],
    ] as const)
      expect(await list(query)).toEqual(expected(query, [...found]));
  });

  it('of one webhook are not those of another, nor of another account', async () => {
    const [webhook, other] = [await createTestWebhook(account), await createTestWebhook(account)];
    await happen();
    const [{ id }] = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    expect((await call('GET', `/${other.id}/deliveries/${id}`)).status).toBe(404);
    expect((await call('POST', `/${other.id}/deliveries/${id}/redeliver`)).status).toBe(404);
    const stranger = await api.account();
    const theirs = await createTestWebhook(stranger);
    for (const path of [`/${webhook.id}/deliveries/${id}`, `/${theirs.id}/deliveries/${id}`]) {
      expect((await stranger.call('GET', `/api/v1/webhooks${path}`)).status).toBe(404);
      expect((await stranger.call('POST', `/api/v1/webhooks${path}/redeliver`)).status).toBe(404);
    }
    expect((await call('GET', `/${webhook.id}/deliveries?event_type=payment.completed`)).body.total).toBe(1);
  });

  it('are made once more of the same event, however the first one ended, once for each key', async () => {
    const webhook = await createTestWebhook(account);
    await happen();
    const [first] = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    await attempt(first.id, 1, true);
    const keyed = createKeyedCalls({ url: api.url, account });
    const path = `/webhooks/${webhook.id}/deliveries/${first.id}/redeliver`;
    const { body: again } = await keyed.expectReplay(path, undefined, withKey(newKey()));
    expect(again).toMatchObject({
      webhook_id: webhook.id,
      event_id: first.event_id,
      event_type: 'payment.completed',
      kind: 'redelivery',
      status: 'pending',
      attempt: 0,
      attempts: [],
    });
    expect(again.id).not.toBe(first.id);
    const { body } = await call('GET', `/${webhook.id}/deliveries?event_id=${first.event_id}`);
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual([again.id, first.id]);
    expect((await account.call('GET', `/api/v1/events?type=payment.completed`)).body.data[0].id).toBe(first.event_id);
    expect(await auditOf(api, again.id)).toMatchObject([
      {
        action: 'webhook_delivery.redelivered',
        actor_type: 'api_key',
        resource_type: 'webhook_delivery',
        result: 'success',
        metadata: { webhook_id: webhook.id, event_id: first.event_id, redelivery_of: first.id },
      },
    ]);
  });

  it('are not made once more to a webhook that is not active, or of an event that is kept no more', async () => {
    const webhook = await createTestWebhook(account);
    await happen();
    const [{ id, event_id: eventId }] = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    const again = () => call('POST', `/${webhook.id}/deliveries/${id}/redeliver`);
    await call('PUT', `/${webhook.id}`, { status: 'inactive' });
    expect(await again()).toMatchObject({
      status: 400,
      body: { message: expect.stringMatching(/ is inactive: it is sent nothing/) },
    });
    await api.pool.query(`update webhooks set status = 'disabled', disabled_reason = 'x' where id = $1`, [webhook.id]);
    expect(await again()).toMatchObject({ status: 400, body: { message: expect.stringMatching(/ is disabled: /) } });
    await call('PUT', `/${webhook.id}`, { status: 'active' });
    const old = newId('evt');
    await api.pool.query('update webhook_deliveries set event_id = $2 where id = $1', [id, old]);
    expect(await again()).toMatchObject({
      status: 400,
      body: { message: `Event ${old} is too old: it is kept no more, and cannot be sent.` },
    });
    await api.pool.query('update webhook_deliveries set event_id = $2 where id = $1', [id, eventId]);
    expect(await again()).toMatchObject({ status: 200 });
    expect((await call('GET', `/${webhook.id}/deliveries`)).body.total).toBe(2);
  });

  it('for trying out are stored, and answered as they stand where nobody delivers; once for each key', async () => {
    const webhook = await createTestWebhook(account, { events: ['payment.failed'] });
    await call('PUT', `/${webhook.id}`, { status: 'inactive' });
    const keyed = createKeyedCalls({ url: api.url, account });
    const { body: delivery } = await keyed.expectReplay(`/webhooks/${webhook.id}/test`, {}, withKey(newKey()));
    expect(delivery).toMatchObject({
      kind: 'test',
      event_type: 'webhook.test',
      status: 'pending',
      attempt: 0,
      attempts: [],
    });
    expect((await call('GET', `/${webhook.id}/deliveries`)).body.total).toBe(1);
    const { body: event } = await account.call('GET', `/api/v1/events/${delivery.event_id}`);
    expect(event).toMatchObject({ type: 'webhook.test', data: (await call('GET', `/${webhook.id}`)).body });
    expect((await account.call('GET', `/api/v1/events?resource_id=${webhook.id}`)).body.total).toBe(1);
    const tested = (await auditOf(api, webhook.id)).filter(({ action }) => action === 'webhook.tested');
    expect(tested).toMatchObject([{ metadata: { delivery_id: delivery.id, event_id: delivery.event_id } }]);
  });

  it('for trying out are five at a time of a webhook, however they are asked for', async () => {
    const [webhook, other] = [await createTestWebhook(account), await createTestWebhook(account)];
    const asked = await Promise.all(Array.from({ length: 8 }, () => call('POST', `/${webhook.id}/test`)));
    expect(asked.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    const refused = asked.find(({ status }) => status === 429)!;
    expect(refused.body).toMatchObject({
      code: 'rate_limit_exceeded',
      message: expect.stringMatching(/^5 tests of whk_/),
    });
    expect(refused.headers.get('retry-after')).toBe('15');
    expect((await call('GET', `/${webhook.id}/deliveries`)).body.total).toBe(5);
    expect((await call('POST', `/${other.id}/test`)).status).toBe(200);
    // One that waits for a worker for longer holds up nobody, and neither does one that has ended.
    const [first] = (await call('GET', `/${webhook.id}/deliveries`)).body.data;
    await attempt(first.id, 1, true);
    expect((await call('POST', `/${webhook.id}/test`)).status).toBe(200);
    await api.pool.query(`update webhook_deliveries set created_at = now() - interval '61 s' where webhook_id = $1`, [
      webhook.id,
    ]);
    expect((await call('POST', `/${webhook.id}/test`)).status).toBe(200);
  });
});
