import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkDeliveries, type SeenRequest } from '../../../bench/check-deliveries.ts';
import { type Child, startGuard, startProcess } from '../../../dev/process.ts';
import { getDelivery } from '../../../shared/db/webhook-deliveries.ts';
import { type DeliverySchedule, deliverySchedule } from '../../../shared/domain/delivery-schedule.ts';
import { webhookDeliveryStart } from '../../../shared/webhook-delivery-start.ts';
import { certificate } from '../../support/certificate.ts';
import { eventually } from '../../support/client.ts';
import { type DeliveryWorld, type RunningDelivery, startDeliveryWorld } from '../../support/delivery-world.ts';
import { type Answering, startReceiver, type TestReceiver, verify } from '../../support/receiver.ts';
import { attemptsOf, insertTestDelivery, insertTestEvent, insertTestWebhook } from '../../support/webhook-rows.ts';

/** The decided schedule in a hurry. */
const hurried: DeliverySchedule = {
  ...deliverySchedule,
  delaysMs: [0, 200, 400, 600, 800, 1_000, 1_000, 1_000],
};
const patient = { timeoutMs: 60_000 };

let world: DeliveryWorld;
let stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  world = await startDeliveryWorld();
});
afterAll(() => world?.stop());
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  stops = [];
});

async function receiver(answer?: Answering): Promise<TestReceiver> {
  const started = await startReceiver();
  stops.push(started.stop);
  if (answer) started.answer(answer);
  return started;
}
async function serve(o?: Parameters<DeliveryWorld['serve']>[0]): Promise<RunningDelivery> {
  const running = await world.serve(o);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= running.stop();
    return stopped;
  };
  stops.push(stop);
  return { stop };
}
const webhookAt = ({ url }: TestReceiver, accountId?: string) =>
  insertTestWebhook(world.pool, { url, key: world.key, ...(accountId && { accountId }) });
const delivery = async (id: string) => (await getDelivery(world.pool, { id }))!;
const isOver = (id: string) =>
  eventually(
    () => delivery(id),
    ({ status }) => status !== 'pending',
    patient,
  );
const handle = (id: string) => world.client.workflow.getHandle(id);
const history = async (id: string) => (await handle(id).fetchHistory()).events ?? [];

describe('a delivery, from its commit to its end', () => {
  it('is taken at the first attempt', async () => {
    await serve();
    const target = await receiver();
    const webhook = await webhookAt(target);
    const [id] = await insertTestEvent(world.pool, { accountId: webhook.account_id });
    expect(await isOver(id!)).toMatchObject({ status: 'succeeded', attempt: 1 });
    verify(webhook.plainSecret, target.received[0]!);
    expect(await handle(id!).result()).toEqual({ status: 'succeeded' });
  });

  it('is repeated by the server as the schedule says, which adds nothing to its history', async () => {
    await serve({ schedule: hurried });
    const target = await receiver((response, _request, count) => void response.writeHead(count < 4 ? 500 : 200).end());
    const webhook = await webhookAt(target);
    const { id } = await insertTestDelivery(world.pool, { webhook });
    expect(await isOver(id)).toMatchObject({ status: 'succeeded', attempt: 4 });
    expect(await handle(id).result()).toEqual({ status: 'succeeded' });
    expect(await history(id)).toHaveLength(11);
    const seen = target.received.map((one, index) => seenRequest(one, index < 3 ? 500 : 200));
    const { faults } = await checkDeliveries(world.pool, { webhookId: webhook.id, schedule: hurried, seen });
    expect(faults).toEqual([]);
  });

  it('ends as failed after its last attempt', async () => {
    await serve({ schedule: { ...hurried, delaysMs: [0, 100, 100] } });
    const target = await receiver((response) => void response.writeHead(404).end());
    const { id } = await insertTestDelivery(world.pool, { webhook: await webhookAt(target) });
    expect(await isOver(id)).toMatchObject({ status: 'failed', attempt: 3, status_code: 404 });
    expect(await handle(id).result()).toEqual({ status: 'failed' });
    expect(target.received).toHaveLength(3);
  });

  it('waits as long as the receiver wants, longer than any pause that the server chooses itself', async () => {
    await serve();
    const target = await receiver((response) => void response.writeHead(429, { 'retry-after': '7200' }).end());
    const { id } = await insertTestDelivery(world.pool, { webhook: await webhookAt(target) });
    const waiting = await eventually(
      async () => (await handle(id).describe()).raw.pendingActivities?.[0],
      (one) => Number(one?.currentRetryInterval?.seconds ?? 0) > 0,
      patient,
    );
    expect(Number(waiting!.currentRetryInterval!.seconds)).toBeGreaterThan(7_000);
    expect(Number(waiting!.currentRetryInterval!.seconds)).toBeLessThanOrEqual(7_200);
    await handle(id).terminate('the test is over');
  });

  it('that was ended by hand and started again makes no attempt before its time', async () => {
    await serve({ schedule: { ...hurried, delaysMs: [0, 3_000, 3_000] } });
    const target = await receiver((response, _request, count) => void response.writeHead(count < 2 ? 500 : 200).end());
    const webhook = await webhookAt(target);
    const { id } = await insertTestDelivery(world.pool, { webhook });
    await eventually(
      () => delivery(id),
      ({ attempt }) => attempt === 1,
      patient,
    );
    await handle(id).terminate('by hand');
    await world.client.workflow.start('webhookDelivery', webhookDeliveryStart(await delivery(id)));
    expect(await isOver(id)).toMatchObject({ status: 'succeeded', attempt: 2 });
    const seen = target.received.map((one, index) => seenRequest(one, index < 1 ? 500 : 200));
    const schedule = { ...hurried, delaysMs: [0, 3_000, 3_000] };
    const { faults } = await checkDeliveries(world.pool, { webhookId: webhook.id, schedule, seen });
    expect(faults).toEqual([]);
  });

  it('waits for a worker that is away', async () => {
    const target = await receiver();
    const first = await serve();
    await first.stop();
    const webhook = await webhookAt(target);
    const ids = (
      await Promise.all(
        Array.from({ length: 10 }, () => insertTestEvent(world.pool, { accountId: webhook.account_id })),
      )
    ).flat();
    for (const id of ids) expect(await delivery(id)).toMatchObject({ status: 'pending', attempt: 0 });
    await serve();
    for (const id of ids) expect(await isOver(id)).toMatchObject({ status: 'succeeded', attempt: 1 });
    expect(target.received).toHaveLength(10);
  });

  it('that waited when Temporal died goes on when it is back', async () => {
    await serve({ schedule: { ...hurried, delaysMs: [0, 4_000] } });
    const target = await receiver((response, _request, count) => void response.writeHead(count < 2 ? 500 : 200).end());
    const webhook = await webhookAt(target);
    const { id } = await insertTestDelivery(world.pool, { webhook });
    await eventually(
      () => delivery(id),
      ({ attempt }) => attempt === 1,
      patient,
    );
    process.kill(world.temporal.pid(), 'SIGKILL');
    const [meanwhile] = await insertTestEvent(world.pool, { accountId: webhook.account_id });
    await world.temporal.restart();
    for (const each of [id, meanwhile!]) expect(await isOver(each)).toMatchObject({ status: 'succeeded' });
    expect(new Set(target.received.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
  });
});

const seenRequest = ({ headers, atMs }: TestReceiver['received'][number], status: number): SeenRequest => ({
  eventId: headers['webhook-id']!,
  atMs,
  status,
});

describe('many deliveries', () => {
  it('to a receiver that hangs do not delay those of another account, or of the same one', async () => {
    await serve({ timeoutMs: 25_000 });
    const hanging = await receiver(() => {});
    const slow = await webhookAt(hanging);
    for (let index = 0; index < 60; index += 1) await insertTestDelivery(world.pool, { webhook: slow });
    await eventually(
      async () => hanging.received.length,
      (count) => count === 25,
      patient,
    );
    const target = await receiver();
    for (const webhook of [await webhookAt(target, slow.account_id), await webhookAt(target)]) {
      const { id } = await insertTestDelivery(world.pool, { webhook });
      expect(await isOver(id)).toMatchObject({ status: 'succeeded' });
    }
    // None of those that hang has ended, and no more were begun.
    expect(hanging.received).toHaveLength(25);
    await hanging.stop();
    await world.pool.query(`update webhooks set status = 'inactive' where id = $1`, [slow.id]);
    const left = `select count(*)::int as n from webhook_deliveries where webhook_id = $1 and status = 'pending' and attempt = 0`;
    await eventually(
      async () => (await world.pool.query<{ n: number }>(left, [slow.id])).rows[0]!.n,
      (n) => n === 0,
      patient,
    );
  });

  it('to a receiver that fails half of the time arrive all, each attempt in its time', {
    timeout: 180_000,
  }, async () => {
    await serve({ schedule: hurried });
    const seen: SeenRequest[] = [];
    const target = await receiver((response, request) => {
      // At most six times in a row, since a delivery has eight attempts.
      const before = seen.filter(({ eventId }) => eventId === request.headers['webhook-id']).length;
      const status = before < 6 && Math.random() < 0.5 ? 503 : 200;
      seen.push(seenRequest(request, status));
      response.writeHead(status).end();
    });
    const webhook = await webhookAt(target);
    const count = 300;
    for (let index = 0; index < count; index += 1) await insertTestEvent(world.pool, { accountId: webhook.account_id });
    const left = `select count(*)::int as n from webhook_deliveries where webhook_id = $1 and status = 'pending'`;
    await eventually(
      async () => (await world.pool.query<{ n: number }>(left, [webhook.id])).rows[0]!.n,
      (n) => n === 0,
      { timeoutMs: 150_000 },
    );
    const { faults, attempts } = await checkDeliveries(world.pool, { webhookId: webhook.id, schedule: hurried, seen });
    expect(faults).toEqual([]);
    expect(attempts).toBe(seen.length);
    expect(new Set(seen.map(({ eventId }) => eventId)).size).toBe(count);
  });
});

describe('a worker process', () => {
  const guard = startGuard();
  let home: string;
  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), 'purser-deliveries-'));
  });
  afterAll(async () => {
    await guard.stop();
    rmSync(home, { recursive: true, force: true });
  });
  let worker: Child | undefined;
  beforeEach(() => {
    worker = undefined;
  });

  async function start(): Promise<Child> {
    writeFileSync(join(home, 'keys.json'), JSON.stringify({ keys: [world.key] }));
    writeFileSync(join(home, 'ca.pem'), certificate.cert);
    const child = await startProcess(guard, {
      name: 'worker',
      command: process.execPath,
      args: [new URL('../../../worker/main.ts', import.meta.url).pathname],
      logFile: join(home, 'worker.log'),
      env: {
        PATH: process.env.PATH,
        PURSER_ENV: 'sandbox',
        PURSER_QUEUES: 'wallet-webhooks',
        PURSER_CHAINS: 'eip155:31337',
        DATABASE_URL: world.database.url,
        TEMPORAL_ADDRESS: world.temporal.address,
        PURSER_SMTP_URL: 'smtp://127.0.0.1:9',
        PURSER_MAIL_FROM: 'Purser <purser@example.com>',
        PURSER_PUBLIC_URL: 'http://127.0.0.1:9',
        PURSER_WEBHOOK_KEYS_FILE: join(home, 'keys.json'),
        PURSER_LOOPBACK_TARGETS: 'on',
        PURSER_TARGET_CA_FILE: join(home, 'ca.pem'),
      },
    });
    stops.push(() => child.stop());
    return child;
  }

  it('that is killed during an attempt repeats that attempt soon, by the same id; it is noted once', {
    timeout: 180_000,
  }, async () => {
    const target = await receiver((response, _request, count) => {
      if (count > 1) response.end();
    });
    worker = await start();
    const webhook = await webhookAt(target);
    const { id } = await insertTestDelivery(world.pool, { webhook });
    await eventually(
      async () => target.received.length,
      (count) => count === 1,
      patient,
    );
    process.kill(worker.pid, 'SIGKILL');
    await worker.exited;
    await start();
    const row = await eventually(
      () => delivery(id),
      ({ status }) => status !== 'pending',
      { timeoutMs: 150_000 },
    );
    expect(row).toMatchObject({ status: 'succeeded', attempt: 1 });
    expect(await attemptsOf(world.pool, id)).toHaveLength(1);
    const [first, second] = target.received as [TestReceiver['received'][number], TestReceiver['received'][number]];
    expect(target.received).toHaveLength(2);
    expect(second.headers['webhook-id']).toBe(first.headers['webhook-id']);
    expect(second.body).toBe(first.body);
    // The server gives the attempt of a dead worker up after 30 s, and repeats it 5 s later.
    expect(second.atMs - first.atMs).toBeLessThan(110_000);
  });

  it('that is told to stop lets the attempt under way end', async () => {
    let answer = () => {};
    const target = await receiver((response) => {
      answer = () => response.end();
    });
    worker = await start();
    const { id } = await insertTestDelivery(world.pool, { webhook: await webhookAt(target) });
    await eventually(
      async () => target.received.length,
      (count) => count === 1,
      patient,
    );
    process.kill(worker.pid, 'SIGTERM');
    setTimeout(() => answer(), 1_000);
    expect(await worker.exited).toBe('exit code 0');
    expect(await delivery(id)).toMatchObject({ status: 'succeeded', attempt: 1 });
  });
});
