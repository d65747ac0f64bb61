import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { JWK } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../../dev/ports.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { type DeliveryRow, getDelivery } from '../../../shared/db/webhook-deliveries.ts';
import { getWebhook, type WebhookRow } from '../../../shared/db/webhooks.ts';
import { deliverySchedule } from '../../../shared/domain/delivery-schedule.ts';
import type { HttpGuardOptions } from '../../../shared/http-guard.ts';
import { certificate } from '../../support/certificate.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { createTestDeliver } from '../../support/deliver.ts';
import { startNameServer } from '../../support/name-server.ts';
import { type Answering, startReceiver, type TestReceiver, verify } from '../../support/receiver.ts';
import { startRawTarget } from '../../support/target.ts';
import { attemptsOf, insertTestDelivery, insertTestWebhook, newSecretKey } from '../../support/webhook-rows.ts';

const minute = 60_000;
let database: TestDatabase;
let pool: Pool;
let key: JWK;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
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
  const started = await startReceiver();
  stops.push(started.stop);
  if (answer) started.answer(answer);
  return started;
}
const says =
  (status: number, headers: Record<string, string> = {}, body = ''): Answering =>
  (response) =>
    void response.writeHead(status, headers).end(body);

async function deliveryTo(url: string): Promise<{ webhook: WebhookRow & { plainSecret: string }; id: string }> {
  const webhook = await insertTestWebhook(pool, { url, key });
  return { webhook, id: (await insertTestDelivery(pool, { webhook })).id };
}
/** One attempt of a new delivery to a url. */
async function attemptTo(url: string, guard: Partial<HttpGuardOptions> = {}) {
  const { webhook, id } = await deliveryTo(url);
  const row = await createTestDeliver({ pool, key, guard }).attempt(id);
  return { row, webhook: (await getWebhook(pool, { id: webhook.id }))!, attempts: await attemptsOf(pool, id) };
}
/** From the end of an attempt to the next one. */
const pauseMs = (row: DeliveryRow) => row.next_attempt_at!.getTime() - row.updated_at.getTime();
function expectInSchedule(row: DeliveryRow): void {
  const plannedMs = deliverySchedule.delaysMs[row.attempt]!;
  expect(pauseMs(row)).toBeGreaterThanOrEqual(plannedMs * 0.9);
  expect(pauseMs(row)).toBeLessThanOrEqual(plannedMs * 1.1);
}

describe('an event that is delivered', () => {
  it('is a POST of its JSON, signed as Standard Webhooks says, by a name of ours', async () => {
    const { url, received } = await receiver();
    const webhook = await insertTestWebhook(pool, { url: `${url}/hooks/a%2Fb?c=d`, key });
    const { id, event_id } = await insertTestDelivery(pool, { webhook });
    expect(await createTestDeliver({ pool, key }).call(id)).toEqual({ status: 'succeeded' });
    const [one] = received as [(typeof received)[number]];
    expect([received.length, one.method, one.path]).toEqual([1, 'POST', '/hooks/a%2Fb?c=d']);
    expect(one.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'Purser-Webhooks/1.0',
      'webhook-id': event_id,
    });
    const event = verify(webhook.plainSecret, one);
    expect(Object.keys(event)).toEqual(['id', 'type', 'created_at', 'api_version', 'livemode', 'data']);
    expect(event).toMatchObject({ id: event_id, type: 'payment.completed', livemode: false });
    expect(event.data).toMatchObject({ note: 'Zoë paid 1,5 € ☕\n', big: '12345678901234567890' });
    expect(() => verify('whsec_bm90IHRoZSBzZWNyZXQgb2YgdGhpcyBvbmUhISEhISE=', one)).toThrow();
  });

  it.each([200, 201, 202, 204, 299])('has arrived when the receiver answers %i', async (status) => {
    const { url } = await receiver(says(status, {}, status === 204 ? '' : 'thanks'));
    const { row, attempts, webhook } = await attemptTo(url);
    const outcome = {
      ...{ status_code: status, failure_reason: null, failure_message: null },
      response_body: status === 204 ? '' : 'thanks',
    };
    expect(row).toMatchObject({ ...outcome, status: 'succeeded', attempt: 1, next_attempt_at: null });
    expect(attempts).toEqual([
      expect.objectContaining({ ...outcome, number: 1, response_time_ms: expect.any(Number) }),
    ]);
    expect(row.response_time_ms).toBe(attempts[0]!.response_time_ms);
    expect(webhook.failing_since).toBeNull();
  });

  it('says in production that it is about real money', async () => {
    const { url, received } = await receiver();
    const { webhook, id } = await deliveryTo(url);
    await createTestDeliver({ pool, key, livemode: true }).call(id);
    expect(verify(webhook.plainSecret, received[0]!).livemode).toBe(true);
  });
});

describe('F41 an event that is not taken', () => {
  it.each([300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 599])(
    'is delivered again later when the receiver answers %i',
    async (status) => {
      const { url } = await receiver(says(status, {}, 'no'));
      const { row, attempts, webhook } = await attemptTo(url);
      expect(row).toMatchObject({ status: 'pending', attempt: 1, failure_reason: 'non_2xx' });
      expect(row.failure_message).toContain(`answered ${status}:`);
      expect(attempts).toHaveLength(1);
      expect(attempts[0]).toMatchObject({ status_code: status, failure_reason: 'non_2xx' });
      expectInSchedule(row);
      expect(webhook).toMatchObject({ status: 'active', failing_since: row.updated_at });
    },
  );

  it.each<[string, (retryIn: (ms: number) => string) => string, number, number]>([
    ['in seconds', () => '3600', 60 * minute, 60 * minute],
    ['as a date', (at) => at(60 * minute), 59 * minute, 60 * minute + 1_000],
    ['in seconds, less than the schedule', () => '1', 4_500, 5_500],
    ['in the past', (at) => at(-60 * minute), 4_500, 5_500],
    ['that is nonsense', () => 'when pigs fly', 4_500, 5_500],
    ['of a year', () => '31536000', 24 * 60 * minute, 24 * 60 * minute],
  ])('with Retry-After %s is not repeated before then', async (_form, header, leastMs, mostMs) => {
    const value = header((ms) => new Date(Date.now() + ms).toUTCString());
    for (const status of [429, 503]) {
      const { url } = await receiver(says(status, { 'retry-after': value }));
      const { row } = await attemptTo(url);
      expect(row).toMatchObject({ status: 'pending', status_code: status });
      expect(pauseMs(row)).toBeGreaterThanOrEqual(leastMs);
      expect(pauseMs(row)).toBeLessThanOrEqual(mostMs);
    }
  });

  const hang = () => {};
  const drip = async (socket: Socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n');
    while (!socket.destroyed) {
      socket.write('a');
      await delay(20);
    }
  };
  it.each<[string, (socket: Socket) => unknown, string]>([
    ['hangs', hang, 'timeout'],
    ['drips its answer', drip, 'timeout'],
    ['resets the connection', (socket) => socket.resetAndDestroy(), 'connection_reset'],
    [
      'breaks off in the middle of the body',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'),
      'connection_reset',
    ],
    ['speaks no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'), 'invalid_response'],
    [
      'sends huge headers',
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nX-Big: ${'a'.repeat(100_000)}\r\n\r\n`),
      'response_too_large',
    ],
  ])('is delivered again later when the receiver %s', async (_what, onConnection, reason) => {
    const target = await startRawTarget((socket) => socket.once('data', () => onConnection(socket)));
    stops.push(target.stop);
    const { row, attempts } = await attemptTo(target.url, { timeoutMs: reason === 'timeout' ? 500 : 5_000 });
    const outcome = { failure_reason: reason, status_code: null, response_time_ms: null, response_body: null };
    expect(row).toMatchObject({ ...outcome, status: 'pending', attempt: 1 });
    expect(row.failure_message).toMatch(/^The receiver could not be asked: .*\.$/);
    expect(attempts).toEqual([expect.objectContaining({ ...outcome, number: 1 })]);
    expectInSchedule(row);
  });

  it('is delivered again later when the receiver sends a huge body', async () => {
    const { url } = await receiver((response) => void response.end(Buffer.alloc(10 * 1024 * 1024)));
    const { row } = await attemptTo(url);
    expect(row).toMatchObject({ status: 'pending', failure_reason: 'response_too_large' });
    expectInSchedule(row);
  });

  it('is delivered again later when the receiver cannot be trusted, found or reached', async () => {
    const { url, received } = await receiver();
    const names = await startNameServer(() => []);
    stops.push(names.stop);
    const cases: [string, string, Partial<HttpGuardOptions>][] = [
      [url, 'tls_error', { extraCa: undefined }],
      [url.replace('127.0.0.1', 'localhost'), 'tls_error', { extraCa: certificate.cert }],
      ['https://hooks.example.com/', 'dns_error', { nameServers: [names.address] }],
      [`https://127.0.0.1:${await freePort()}/`, 'connection_refused', {}],
    ];
    for (const [where, reason, guard] of cases) {
      const { row } = await attemptTo(where, guard);
      expect(row).toMatchObject({ status: 'pending', failure_reason: reason, attempt: 1 });
      expectInSchedule(row);
    }
    expect(received).toHaveLength(0);
  });

  it('has eight attempts, each in its time, and then has failed', async () => {
    const { url, received } = await receiver(says(500));
    const { webhook, id } = await deliveryTo(url);
    const { attempt, call } = createTestDeliver({ pool, key });
    for (let number = 1; number <= 8; number += 1) {
      const row = await attempt(id);
      expect(row.attempt).toBe(number);
      if (number < 8) expectInSchedule(row);
      else expect(row).toMatchObject({ status: 'failed', next_attempt_at: null, failure_reason: 'non_2xx' });
    }
    expect(await call(id)).toEqual({ status: 'failed' });
    expect(received).toHaveLength(8);
    expect((await attemptsOf(pool, id)).map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await getWebhook(pool, { id: webhook.id })).toMatchObject({ status: 'active' });
  });

  it('is sent each time by the same id and with the same bytes, and signed anew', async () => {
    const { url, received } = await receiver((response, _request, count) => {
      response.writeHead(count < 3 ? 500 : 200).end();
    });
    const { webhook, id } = await deliveryTo(url);
    const { attempt } = createTestDeliver({ pool, key });
    await attempt(id);
    const oneSecond = 1_010 - (Date.now() % 1_000);
    await delay(oneSecond);
    await attempt(id);
    expect(await attempt(id)).toMatchObject({
      status: 'succeeded',
      attempt: 3,
      failure_reason: null,
      failure_message: null,
    });
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(new Set(received.map(({ headers }) => headers['webhook-timestamp'])).size).toBeGreaterThan(1);
    expect(new Set(received.map(({ headers }) => headers['webhook-signature'])).size).toBeGreaterThan(1);
    for (const one of received) verify(webhook.plainSecret, one);
    const codes = (await attemptsOf(pool, id)).map(({ status_code }) => status_code);
    expect(codes).toEqual([500, 500, 200]);
  });

  it('asks to be called again exactly when the next attempt is due', async () => {
    const { url } = await receiver(says(500));
    const { id } = await deliveryTo(url);
    const called = await createTestDeliver({ pool, key }).call(id);
    const row = (await getDelivery(pool, { id }))!;
    expect(called).toEqual({ again: 'AttemptFailed', delayMs: pauseMs(row) });
  });
});

describe('F42 a receiver inside of our network', () => {
  it.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '017700000001',
    'localhost',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::a9fe:a9fe]',
    '[fe80::1]',
    '169.254.169.254',
    '[fd00:ec2::254]',
    '0.0.0.0',
    '0',
    '[::]',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
  ])('is never asked: %s', async (host) => {
    const local = await receiver();
    const url = local.url.replace('127.0.0.1', host);
    const { row, attempts } = await attemptTo(url, { allowLoopback: false });
    expect(row).toMatchObject({ status: 'pending', failure_reason: 'blocked_address', status_code: null });
    expect(attempts).toEqual([expect.objectContaining({ failure_reason: 'blocked_address' })]);
    expectInSchedule(row);
    expect(local.connections()).toBe(0);
  });

  it('is not asked where its name leads there the second time only: each attempt asks anew', async () => {
    const local = await receiver();
    let addresses: string[] = [];
    const names = await startNameServer(() => addresses);
    stops.push(names.stop);
    const { id } = await deliveryTo(local.url.replace('127.0.0.1', 'hooks.example.com'));
    const { attempt } = createTestDeliver({ pool, key, guard: { nameServers: [names.address] } });
    expect(await attempt(id)).toMatchObject({ attempt: 1, failure_reason: 'dns_error' });
    for (const [index, address] of ['127.0.0.1', '169.254.169.254', '::ffff:10.0.0.1'].entries()) {
      addresses = ['1.1.1.1', address];
      const row = await attempt(id);
      expect(row).toMatchObject({ attempt: index + 2, failure_reason: 'blocked_address' });
      expect(row.failure_message).not.toContain(address);
      expectInSchedule(row);
    }
    expect(local.connections()).toBe(0);
    expect(names.asked).toHaveLength(8);
  });

  it('is not asked because another one redirects there', async () => {
    const inner = await receiver();
    for (const status of [301, 302, 303, 307, 308])
      for (const location of [inner.url, 'http://169.254.169.254/latest/meta-data/', '//localhost/']) {
        const { url } = await receiver(says(status, { location }));
        const { row } = await attemptTo(url);
        expect(row).toMatchObject({ status: 'pending', status_code: status, failure_reason: 'non_2xx' });
        expect(row.failure_message).toMatch(/redirects are not followed/);
      }
    expect(inner.connections()).toBe(0);
  });
});

describe('what is kept of an answer', () => {
  const shown = async (body: Buffer | string) => {
    const { url } = await receiver((response) => void response.writeHead(500).end(body));
    const { row, attempts } = await attemptTo(url);
    expect(attempts[0]!.response_body).toBe(row.response_body);
    return row.response_body!;
  };
  it.each<[string, Buffer | string, string]>([
    ['nothing', '', ''],
    ['a short text', '{"error":"nö"}', '{"error":"nö"}'],
    ['a NUL', 'a\0b', 'a\uFFFDb'],
    ['what is no UTF-8', Buffer.from([0x61, 0xff, 0x62]), 'a\uFFFDb'],
    ['a character that breaks off', Buffer.from([0x61, 0xe2, 0x82]), 'a\uFFFD'],
    ['one that the limit cuts in two', 'a'.repeat(1022) + '€'.repeat(5), 'a'.repeat(1022)],
    ['one that fits exactly', 'a'.repeat(1021) + '€'.repeat(5), `${'a'.repeat(1021)}€`],
  ])('is text: %s', async (_name, body, text) => {
    expect(await shown(body)).toBe(text);
  });

  it('is a kibibyte at most, also where replacements make it longer', async () => {
    for (const body of ['a'.repeat(5_000), Buffer.alloc(2_000), Buffer.alloc(2_000, 0xff), '€'.repeat(1_000)]) {
      const text = await shown(body);
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1024);
      expect(Buffer.byteLength(text)).toBeGreaterThan(1020);
    }
  });
});
