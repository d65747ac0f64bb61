import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventTypes } from '../../../shared/domain/events.ts';
import { createSecretOpener } from '../../../shared/webhook-secrets.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { auditOf, createTestWebhook, newSecret, webhookBody } from './webhook-calls.ts';

const nobody = '127.0.0.1:1';

describe('webhooks', () => {
  let api: TestApi;
  let second: ApiProcess;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
    account = await api.account();
    second = await startApiProcess({ databaseUrl: api.databaseUrl, temporalAddress: nobody });
  });
  afterAll(async () => {
    await second?.kill();
    await api?.stop();
  });

  const create = (more: Record<string, unknown> = {}) => createTestWebhook(account, more);
  const call = (method: string, path: string, body?: unknown) => account.call(method, `/api/v1/webhooks${path}`, body);
  const rowOf = async (id: string) => (await api.pool.query('select * from webhooks where id = $1', [id])).rows[0];
  const open = async (id: string, sealed: string) =>
    createSecretOpener(await testWebhookKeys()).open({ sealed, webhookId: id });
  /** One request by each of two processes, at once. */
  const atOnce = (method: string, path: string, bodies: unknown[]) =>
    Promise.all(
      bodies.map((body, index) =>
        index % 2 === 0
          ? call(method, path, body)
          : callWith(second.url, { 'x-api-key': account.key })(method, `/api/v1/webhooks${path}`, body),
      ),
    );

  it('are registered, read, changed and deleted, and never show their secret', async () => {
    const body = webhookBody({ events: ['payment.completed', 'payment.failed'] });
    const created = await call('POST', '', body);
    expect([created.status, created.body]).toEqual([
      200,
      {
        id: expect.stringMatching(/^whk_/),
        url: body.url,
        events: ['payment.completed', 'payment.failed'],
        status: 'active',
        disabled_reason: null,
        secret_format: 'base64',
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        updated_at: created.body.created_at,
      },
    ]);
    const { id } = created.body;
    expect((await call('GET', `/${id}`)).body).toEqual(created.body);
    const changed = await call('PUT', `/${id}`, { url: 'https://example.org/', status: 'inactive' });
    expect([changed.status, changed.body]).toEqual([
      200,
      { ...created.body, url: 'https://example.org/', status: 'inactive', updated_at: expect.any(String) },
    ]);
    const deleted = await call('DELETE', `/${id}`);
    expect([deleted.status, deleted.body]).toEqual([200, { id, deleted: true }]);
    for (const [method, path, given] of [
      ['GET', ''],
      ['PUT', '', { status: 'active' }],
      ['DELETE', ''],
      ['POST', '/rotate-secret', { secret: newSecret() }],
      ['POST', '/test'],
      ['GET', '/deliveries'],
    ] as const)
      expect([method, path, (await call(method, `/${id}${path}`, given)).status]).toEqual([method, path, 404]);
    expect(await rowOf(id)).toMatchObject({ secret: null, secret_key_id: null, previous_secret: null });
  });

  it('without events, or with all of them, are sent every kind, also those to come', async () => {
    for (const events of [undefined, null, [...eventTypes], [...eventTypes, 'payment.pending']]) {
      const { id, events: shown } = await create({ events });
      expect(shown).toEqual([...eventTypes]);
      expect((await rowOf(id)).events).toBeNull();
    }
  });

  it('merge kinds that are named twice, and name all that are unknown', async () => {
    expect((await create({ events: ['x402.payment.failed', 'payment.failed', 'x402.payment.failed'] })).events).toEqual(
      ['x402.payment.failed', 'payment.failed'],
    );
    const many = ['payment.done', 'payment.completed', 'toString', ...Array.from({ length: 9 }, (_, n) => `x${n}`)];
    const { status, body } = await call('POST', '', webhookBody({ events: many }));
    expect([status, body.code, body.param]).toEqual([400, 'invalid_request', 'events']);
    expect(body.message).toMatch(
      /^events names unknown kinds of events: "payment.done", "toString", "x0", "x1", "x2" and 6 more\. Known are: payment\.pending, /,
    );
  });

  it('keep what PUT does not give; `null` says the same, and nothing at all is refused', async () => {
    const { id, events, url } = await create({ events: ['agent.created'] });
    for (const given of [{ status: 'inactive' }, { status: 'active', url: null, events: null }])
      expect((await call('PUT', `/${id}`, given)).body).toMatchObject({ events, url, status: given.status });
    expect((await call('PUT', `/${id}`, { events: [...eventTypes] })).body.events).toEqual([...eventTypes]);
    expect((await rowOf(id)).events).toBeNull();
    for (const given of [{}, { url: null }]) {
      const { status, body } = await call('PUT', `/${id}`, given);
      expect([status, body.message]).toEqual([400, expect.stringMatching(/at least one of url, events and status/)]);
    }
    expect((await call('PUT', `/${id}`, { secret: newSecret() })).body).toMatchObject({ param: 'secret' });
    expect((await call('PUT', `/${id}`, { status: 'disabled' })).body).toMatchObject({ param: 'status' });
  });

  it('that were disabled are lifted by `active` and stopped by `inactive`; another url forgets failures, and lifts nothing', async () => {
    const disable = async () => {
      const { id } = await create();
      await api.pool.query(
        `update webhooks set status = 'disabled', disabled_reason = 'It answered 410.', failing_since = now() where id = $1`,
        [id],
      );
      return id as string;
    };
    const [first, other] = [await disable(), await disable()];
    expect((await call('GET', `/${first}`)).body).toMatchObject({
      status: 'disabled',
      disabled_reason: 'It answered 410.',
    });
    expect((await call('PUT', `/${first}`, { events: ['agent.created'] })).body.status).toBe('disabled');
    expect((await rowOf(first)).failing_since).not.toBeNull();
    expect((await call('PUT', `/${first}`, { url: 'https://example.org/new' })).body).toMatchObject({
      status: 'disabled',
      disabled_reason: 'It answered 410.',
    });
    expect((await rowOf(first)).failing_since).toBeNull();
    expect((await call('PUT', `/${first}`, { status: 'active' })).body).toMatchObject({
      status: 'active',
      disabled_reason: null,
    });
    expect((await call('PUT', `/${other}`, { status: 'inactive' })).body).toMatchObject({
      status: 'inactive',
      disabled_reason: null,
    });
    expect((await rowOf(other)).failing_since).not.toBeNull();
    expect((await call('PUT', `/${other}`, { status: 'active' })).body.status).toBe('active');
    expect((await rowOf(other)).failing_since).toBeNull();
  });

  it('get another secret; the one before stays for a day, and no third one', async () => {
    const [one, two, three] = [newSecret(), newSecret(), 'whsec_a secret in words'];
    const { id } = await create({ secret: one });
    const from = Date.now();
    const rotated = await call('POST', `/${id}/rotate-secret`, { secret: two });
    expect([rotated.status, rotated.body.secret_format]).toEqual([200, 'base64']);
    const row = await rowOf(id);
    expect(await open(id, row.secret)).toBe(two);
    expect(await open(id, row.previous_secret)).toBe(one);
    const hours = (row.previous_until.getTime() - from) / 3_600_000;
    expect(hours).toBeGreaterThan(23.9);
    expect(hours).toBeLessThan(24.1);
    expect((await call('POST', `/${id}/rotate-secret`, { secret: three })).body.secret_format).toBe('utf8');
    const after = await rowOf(id);
    expect([await open(id, after.secret), await open(id, after.previous_secret)]).toEqual([three, two]);
  });

  it('that two processes rotate, change and delete at once come to one of the results, each whole', async () => {
    const [one, ...others] = [newSecret(), newSecret(), newSecret(), newSecret(), newSecret()];
    const { id } = await create({ secret: one });
    const rotated = await atOnce(
      'POST',
      `/${id}/rotate-secret`,
      others.map((secret) => ({ secret })),
    );
    expect(rotated.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const row = await rowOf(id);
    const [current, previous] = [await open(id, row.secret), await open(id, row.previous_secret)];
    expect(others).toEqual(expect.arrayContaining([current, previous]));
    expect(current).not.toBe(previous);
    const bodies = [{ url: 'https://example.org/a' }, { events: ['agent.created'] }, { status: 'inactive' }];
    await atOnce('PUT', `/${id}`, bodies);
    expect((await call('GET', `/${id}`)).body).toMatchObject(Object.assign({}, ...bodies));
    const deleted = await atOnce('DELETE', `/${id}`, [undefined, undefined, undefined, undefined]);
    expect(deleted.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404]);
    const actions = (await auditOf(api, id)).map(({ action }) => action);
    expect(actions.filter((action) => action === 'webhook.secret_rotated')).toHaveLength(4);
    expect(actions.filter((action) => action === 'webhook.updated')).toHaveLength(3);
    expect(actions.filter((action) => action === 'webhook.deleted')).toHaveLength(1);
  });

  it('are made and rotated once for a repeat with the same key, also by another process', async () => {
    const keyed = createKeyedCalls({ url: api.url, account });
    const elsewhere = createKeyedCalls({ url: second.url, account });
    const before = (await call('GET', '')).body.total;
    const made = await keyed.expectReplay('/webhooks', webhookBody(), withKey(newKey()));
    expect((await call('GET', '')).body.total).toBe(before + 1);
    const path = `/webhooks/${made.body.id}/rotate-secret`;
    const [key, body] = [newKey(), { secret: newSecret() }];
    const first = await keyed.post(path, body, withKey(key));
    const row = await rowOf(made.body.id);
    const again = await elsewhere.post(path, body, withKey(key));
    expect([again.replayed, again.text]).toEqual(['true', first.text]);
    expect(await rowOf(made.body.id)).toEqual(row);
    await keyed.expectConflict(path, { secret: newSecret() }, withKey(key));
    expect((await auditOf(api, made.body.id)).map(({ action }) => action)).toEqual([
      'webhook.created',
      'webhook.secret_rotated',
    ]);
  });

  it('are listed newest first, page by page, also when many are of one instant, without deleted ones', async () => {
    const own = await api.account();
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push((await createTestWebhook(own)).id);
    await own.call('DELETE', `/api/v1/webhooks/${ids[2]}`);
    await api.pool.query('update webhooks set created_at = $2 where account_id = $1', [own.id, '2026-03-01T12:00:00Z']);
    const expected = ids
      .filter((_, index) => index !== 2)
      .sort()
      .reverse();
    const seen: string[] = [];
    for (const page of [1, 2]) {
      const { body } = await own.call('GET', `/api/v1/webhooks?page_size=2&page_num=${page}`);
      expect([body.total, body.has_more]).toEqual([4, page === 1]);
      seen.push(...body.data.map(({ id }: { id: string }) => id));
    }
    expect(seen).toEqual(expected);
    expect((await own.call('GET', '/api/v1/webhooks?page_num=9')).body).toEqual({
      data: [],
      total: 4,
      has_more: false,
    });
  });

  it('of another account are not there, whatever is asked of them', async () => {
    const { id } = await create();
    const stranger = await api.account();
    for (const [method, path, body] of [
      ['GET', ''],
      ['PUT', '', { status: 'inactive' }],
      ['DELETE', ''],
      ['POST', '/rotate-secret', { secret: newSecret() }],
      ['POST', '/test'],
      ['GET', '/deliveries'],
    ] as const) {
      const answer = await stranger.call(method, `/api/v1/webhooks/${id}${path}`, body);
      const missing = await stranger.call(method, `/api/v1/webhooks/whk_01kahvd1r0fv2t5c7m4y2q8s3z${path}`, body);
      expect([answer.status, answer.body.code]).toEqual([404, 'resource_not_found']);
      expect(answer.body.message.replace(id, 'X')).toBe(
        missing.body.message.replace('whk_01kahvd1r0fv2t5c7m4y2q8s3z', 'X'),
      );
    }
    expect((await stranger.call('GET', '/api/v1/webhooks')).body.total).toBe(0);
    expect((await call('GET', `/${id}`)).body.status).toBe('active');
  });

  it('say in the audit log who did what, with what was before and what is now', async () => {
    const person = await account.person('ops@example.com');
    const created = (await person.call('POST', '/api/v1/webhooks', webhookBody())).body;
    const changed = (await call('PUT', `/${created.id}`, { status: 'inactive' })).body;
    const answer = await call('POST', `/${created.id}/rotate-secret`, { secret: newSecret() });
    await call('DELETE', `/${created.id}`);
    const byKey = { actor_type: 'api_key', actor_name: 'test', resource_type: 'webhook', result: 'success' };
    const entries = await auditOf(api, created.id);
    expect(entries).toMatchObject([
      {
        action: 'webhook.created',
        actor_type: 'user',
        actor_name: 'ops@example.com',
        ip_address: '127.0.0.1',
        changes: { before: null, after: created },
      },
      { action: 'webhook.updated', ...byKey, changes: { before: created, after: changed } },
      {
        action: 'webhook.secret_rotated',
        ...byKey,
        request_id: answer.headers.get('x-request-id'),
        changes: { before: changed, after: answer.body },
        metadata: { previous_valid_until: expect.any(String) },
      },
      { action: 'webhook.deleted', ...byKey, changes: { before: answer.body, after: null } },
    ]);
  });

  it('are not there, nor is anything said of them, where the request was refused', async () => {
    const own = await api.account();
    for (const body of [
      { ...webhookBody(), secret: 'x' },
      { ...webhookBody(), url: 'http://example.com/' },
    ])
      expect((await own.call('POST', '/api/v1/webhooks', body)).status).toBe(400);
    const { rows } = await api.pool.query('select count(*)::int as count from audit_inbox where account_id = $1', [
      own.id,
    ]);
    expect([(await own.call('GET', '/api/v1/webhooks')).body.total, rows[0].count]).toEqual([0, 0]);
  });
});
