import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { oneActivity } from '../../../bench/floor-workflows.ts';
import { createLogger } from '../../../shared/log.ts';
import { serveMetrics } from '../../../shared/metrics/serve-metrics.ts';
import { createTemporalBuffer, measureSlots, measureTemporal } from '../../../worker/measure-temporal.ts';
import { createSlotGate, tunerFor } from '../../../worker/slot-gate.ts';
import { eventually } from '../../support/client.ts';
import { metricOf, scrapeAll } from '../../support/scrapes.ts';
import { connectTestTemporal, type TestTemporal } from '../../support/temporal.ts';

const log = createLogger({ process: 'test', level: 'silent' });
const taskQueue = `metrics-${randomUUID()}`;
/** The queue that the workflow names; no other test has a worker for it. */
const activityQueue = 'bench-floor-activities';

describe('metrics of the Temporal SDK', () => {
  let temporal: TestTemporal;
  let connection: NativeConnection;
  let workers: Worker[];
  let running: Promise<unknown>;
  let metrics: Awaited<ReturnType<typeof serveMetrics>>;
  beforeAll(async () => {
    temporal = await connectTestTemporal();
    const logger = new DefaultLogger('ERROR', () => {});
    const buffer = createTemporalBuffer();
    Runtime.install({ logger, shutdownSignals: [], telemetryOptions: { metrics: { buffer } } });
    const registry = new Registry();
    measureTemporal({ buffer, registry, log });
    metrics = await serveMetrics({ registry, host: '127.0.0.1', port: 0, log });
    connection = await NativeConnection.connect({ address: temporal.address });
    const workflowsPath = fileURLToPath(new URL('../../../bench/floor-workflows.ts', import.meta.url));
    const gate = createSlotGate({ tell: measureSlots(registry) });
    const common = { connection, namespace: 'default' };
    workers = await Promise.all([
      Worker.create({
        ...{ ...common, taskQueue, workflowBundle: await bundleWorkflowCode({ workflowsPath, logger }) },
        tuner: tunerFor(gate, { workflowTasks: 4, activities: 1 }),
      }),
      Worker.create({
        ...{ ...common, taskQueue: activityQueue, activities: { nothing: async () => {} } },
        tuner: tunerFor(gate, { activities: 7 }),
      }),
    ]);
    running = Promise.all(workers.map((worker) => worker.run()));
  });
  afterAll(async () => {
    for (const worker of workers ?? []) worker.shutdown();
    await running;
    await connection?.close();
    await metrics?.stop();
    await temporal?.close();
  });
  const scrape = () =>
    scrapeAll([{ job: 'purser-worker', instance: 'test', read: async () => (await fetch(metrics.url)).text() }]);

  it('come with our own from one port: waiting times, slots, what is remembered, calls', {
    timeout: 60_000,
  }, async () => {
    const workflowId = `metrics/${randomUUID()}`;
    await temporal.client.workflow.execute<typeof oneActivity>('oneActivity', { taskQueue, workflowId });
    const counts = {
      temporal_activity_schedule_to_start_latency_seconds_count: { task_queue: activityQueue },
      temporal_workflow_task_schedule_to_start_latency_seconds_count: { task_queue: taskQueue },
      temporal_request_total: { operation: 'RespondWorkflowTaskCompleted' },
      temporal_num_pollers: { task_queue: taskQueue, poller_type: 'workflow_task' },
    };
    const seen = await eventually(scrape, (now) =>
      Object.entries(counts).every(([name, labels]) => (metricOf(now, name, labels) ?? 0) > 0),
    );
    const of = (name: string, labels: Record<string, string>) => metricOf(seen, name, labels);
    expect(of('temporal_worker_task_slots_used', { task_queue: activityQueue })).toBeGreaterThanOrEqual(0);
    expect(of('temporal_sticky_cache_size', { task_queue: taskQueue })).toBeGreaterThanOrEqual(0);
    expect(of('purser_worker_task_slots', { task_queue: taskQueue, worker_type: 'WorkflowWorker' })).toBe(4);
    expect(of('purser_worker_task_slots', { task_queue: activityQueue, worker_type: 'ActivityWorker' })).toBe(7);
    expect([...seen.values.keys()].join('\n')).not.toContain(workflowId);
  });
});
