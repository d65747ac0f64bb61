import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { createDeliveryActivities } from '../activities/deliveries.ts';
import { createDispatcher } from '../activities/dispatch-deliveries.ts';
import type { DevFacts } from '../dev/home.ts';
import type { Progress } from '../dev/progress.ts';
import { databaseClock } from '../shared/db/clock.ts';
import { insertEvent } from '../shared/db/events.ts';
import { createPool, inTransaction, type Pool } from '../shared/db/pool.ts';
import type { WebhookRow } from '../shared/db/webhooks.ts';
import { type DeliverySchedule, deliverySchedule } from '../shared/domain/delivery-schedule.ts';
import { createHttpGuard } from '../shared/http-guard.ts';
import { newId } from '../shared/ids.ts';
import { createLogger } from '../shared/log.ts';
import { certificate } from '../test/support/certificate.ts';
import { startReceiver } from '../test/support/receiver.ts';
import { insertTestWebhook, secretBox } from '../test/support/webhook-rows.ts';
import { makeWorkflowBundle } from '../worker/bundle.ts';
import { createDeliveryWorker } from '../worker/deliveries.ts';
import { checkDeliveries, type SeenRequest } from './check-deliveries.ts';
import { inParallel, type Throughput } from './parallel.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { type Summary, summarise, timed } from './samples.ts';
import { type DeliveryParts, withDeliveries } from './with-deliveries.ts';
import { createWorkflowFloor } from './workflow-floor.ts';

/** Events a second, of one account; a first attempt is to follow within a second for 99 of 100. */
const rate = 15;
const firstAttemptAimMs = 1_000;
/** Events that wait for a receiver which hangs, at the beginning, and more of them each second. */
const hangingBacklog = 300;
const hangingRate = 2;
/** As many requests as the service makes to one receiver at a time. */
const width = 25;
const connections = 10;
/** Of each attempt of a delivery, so that it is taken at the last one at the latest. */
const failedShare = 0.5;
/** The decided schedule in a hurry: the same number of attempts. */
const hurried: DeliverySchedule = { ...deliverySchedule, delaysMs: [0, 250, 500, 1_000, 1_000, 1_000, 1_000, 1_000] };
const lookMs = 100;

/** How much is measured. */
export interface WebhookPlan {
  /** How long the rate is kept up. */
  readonly seconds: number;
  /** Events to a receiver that fails half of the time. */
  readonly events: number;
  /** Bare workflows, and bare requests. */
  readonly floors: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullWebhookPlan: WebhookPlan = { seconds: 60, events: 10_000, floors: 1_000, limitMs: 1_200_000 };
export const quickWebhookPlan: WebhookPlan = { seconds: 10, events: 500, floors: 200, limitMs: 300_000 };

interface WebhookContext {
  readonly plan: WebhookPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

const first = `event → first attempt, at ${rate}/s beside a receiver that hangs`;
const late = 'attempt after it was due, half of them failing';
const floorWorkflow = 'floor, bare workflow with 1 activity';
const floorPost = 'floor, bare guarded POST by TLS';
const taken = 'deliveries, half of the attempts failing';
const attempts = 'attempts of these';

/**
 * Measures deliveries: by a worker process as in service while events come at a rate, and as many as there are at once to
 * a receiver that fails half of the time, by a schedule in a hurry.
 * @throws where a delivery was lost, or an attempt was not in its time
 */
export function measureWebhooks({ appUrl }: { appUrl: string }, context: WebhookContext): Promise<MeasuredPart> {
  return withDeliveries({ appUrl, progress: context.progress }, async (parts) => {
    const pool = createPool({ url: appUrl, max: connections, application: 'purser-bench' });
    try {
      // The floor installs the process's Temporal runtime; nothing else may do so before.
      const floors = await measureFloors(parts, context);
      const firsts = await context.progress.step(first, () => measureRate(pool, parts, context));
      const bulk = await context.progress.step(taken, () => measureBulk(pool, parts, context));
      const durations = new Map([...floors.durations, [first, firsts], [late, bulk.lateness]]);
      const throughput = new Map([...floors.throughput, [taken, bulk.deliveries], [attempts, bulk.attempts]]);
      return { durations, throughput, ratios: ratiosOf({ durations, throughput }) };
    } finally {
      await pool.end();
    }
  });
}

async function measureFloors({ temporalAddress }: DeliveryParts, { plan, progress, signal }: WebhookContext) {
  const floor = await createWorkflowFloor({ facts: { temporal_address: temporalAddress } as DevFacts });
  const receiver = await startReceiver();
  const ask = createTestGuard();
  const request = { url: `${receiver.url}/`, method: 'POST', headers: {}, body: '{}' };
  const durations = new Map<string, Summary>();
  const throughput = new Map<string, Throughput>();
  try {
    for (const [name, once] of [
      [floorWorkflow, () => floor.oneActivityMs()],
      [floorPost, () => timed(() => ask(request))],
    ] as const)
      await progress.step(name, async () => {
        const ms: number[] = [];
        const bounds = { width, total: plan.floors, limitMs: plan.limitMs, signal };
        throughput.set(name, await inParallel(async () => void ms.push(await once()), bounds));
        durations.set(name, summarise(ms));
      });
  } finally {
    await receiver.stop();
    await floor.close();
  }
  return { durations, throughput };
}

const createTestGuard = () => createHttpGuard({ allowLoopback: true, extraCa: certificate.cert, timeoutMs: 15_000 });

/** As the service writes it with what it reports. */
const tell = (pool: Pool, { account_id: accountId }: WebhookRow) =>
  inTransaction(pool, (db) => {
    const resource = { resourceType: 'transaction', resourceId: newId('tx'), agentId: null } as const;
    return insertEvent(db, {
      accountId,
      type: 'payment.completed',
      ...resource,
      data: { amount: '1.5', token: 'USDC' },
    });
  });

async function measureRate(pool: Pool, { key, startWorker }: DeliveryParts, { plan, signal }: WebhookContext) {
  const [receiver, hanging] = [await startReceiver(), await startReceiver()];
  hanging.answer(() => {});
  const stopWorker = await startWorker();
  try {
    const webhook = await insertTestWebhook(pool, { url: receiver.url, key });
    const slow = await insertTestWebhook(pool, { url: hanging.url, key });
    for (let index = 0; index < hangingBacklog; index += 1) await tell(pool, slow);
    // Once this one is there, the worker is ready.
    await tell(pool, webhook);
    await until(() => Promise.resolve(receiver.received.length === 1 && hanging.received.length >= width), {
      plan,
      signal,
    });
    const total = plan.seconds * rate;
    const from = performance.now();
    for (let index = 0; index < total; index += 1) {
      signal.throwIfAborted();
      await delay(Math.max(0, from + (index * 1_000) / rate - performance.now()));
      // Not waited for: a slow insert is to show in what follows, not in the rate.
      void tell(pool, webhook);
      if (index % Math.round(rate / hangingRate) === 0) void tell(pool, slow);
    }
    await until(() => Promise.resolve(receiver.received.length > total), { plan, signal });
    const events = receiver.received.slice(1).map(({ body, atMs }) => ({ event: JSON.parse(body), atMs }));
    return summarise(events.map(({ event, atMs }) => atMs - Date.parse(event.created_at)));
  } finally {
    await stopWorker();
    await Promise.all([receiver.stop(), hanging.stop()]);
    // What is left of the one that hung must not be in the way of what follows.
    await pool.query(`update webhook_deliveries set status = 'failed', next_attempt_at = null, dispatched_at = now()
                      where status = 'pending'`);
  }
}

async function measureBulk(pool: Pool, { key, temporalAddress }: DeliveryParts, { plan, signal }: WebhookContext) {
  const seen: SeenRequest[] = [];
  const failures = new Map<string, number>();
  const receiver = await startReceiver();
  receiver.answer((response, { headers, atMs }) => {
    const eventId = headers['webhook-id']!;
    const failed = failures.get(eventId) ?? 0;
    const isFailing = failed < hurried.delaysMs.length - 1 && Math.random() < failedShare;
    if (isFailing) failures.set(eventId, failed + 1);
    const status = isFailing ? 503 : 200;
    seen.push({ eventId, atMs, status });
    response.writeHead(status).end();
  });
  const webhook = await insertTestWebhook(pool, { url: receiver.url, key });
  await inParallel(() => tell(pool, webhook), {
    width: connections,
    total: plan.events,
    limitMs: plan.limitMs,
    signal,
  });
  const connection = await NativeConnection.connect({ address: temporalAddress });
  const logger = createLogger({ process: 'bench', level: 'error' });
  const own = { pool, clock: databaseClock, logger, livemode: false, ...secretBox(key) };
  const worker = await createDeliveryWorker({
    ...{ connection, namespace: 'default', workflowBundle: await makeWorkflowBundle() },
    activities: createDeliveryActivities({ ...own, guard: createTestGuard(), schedule: hurried }),
  });
  const running = worker.run();
  const dispatcher = createDispatcher({ pool, client: new Client({ connection }), logger });
  const from = performance.now();
  dispatcher.start();
  try {
    await until(() => haveEnded(pool, webhook), { plan, signal });
    const seconds = (performance.now() - from) / 1000;
    const checked = await checkDeliveries(pool, { webhookId: webhook.id, schedule: hurried, seen });
    if (checked.faults.length > 0)
      throw new Error(`${checked.faults.length} faults of deliveries: ${checked.faults.slice(0, 5).join('; ')}`);
    const perSecond = (done: number): Throughput => ({ done, seconds, perSecond: done / seconds });
    const lateness = summarise(checked.latenessMs);
    return { lateness, deliveries: perSecond(plan.events), attempts: perSecond(checked.attempts) };
  } finally {
    await dispatcher.stop();
    worker.shutdown();
    await running;
    await Promise.all([receiver.stop(), connection.close()]);
  }
}

async function haveEnded(pool: Pool, { id }: WebhookRow): Promise<boolean> {
  const { rowCount } = await pool.query(
    `select id from webhook_deliveries where webhook_id = $1 and status = 'pending' limit 1`,
    [id],
  );
  return rowCount === 0;
}

async function until(isSo: () => Promise<boolean>, { plan, signal }: Omit<WebhookContext, 'progress'>): Promise<void> {
  const deadline = performance.now() + plan.limitMs;
  while (!(await isSo())) {
    signal.throwIfAborted();
    if (performance.now() > deadline) throw new Error(`Deliveries did not end within ${plan.limitMs / 1000} s.`);
    await delay(lookMs);
  }
}

function ratiosOf({ durations, throughput }: Omit<MeasuredPart, 'ratios'>): Ratio[] {
  const perSecond = (name: string) => throughput.get(name)!.perSecond;
  const value = durations.get(first)!.p99 / firstAttemptAimMs;
  return [
    { name: 'p99 of event → first attempt / 1 s', value, aim: 1, isMet: value <= 1 },
    { name: 'deliveries/s / bare workflows/s', value: perSecond(taken) / perSecond(floorWorkflow) },
    { name: 'attempts/s / bare POSTs/s', value: perSecond(attempts) / perSecond(floorPost) },
  ];
}
