import { type BufferedMetricUpdate, MetricsBuffer } from '@temporalio/worker';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Logger } from '../shared/log.ts';
import type { SlotSize } from './slot-gate.ts';

/** What the SDK holds until it is fetched: some seconds of more work than a process can do. About 2 MB. */
const maxUpdates = 50_000;
/** How often it is fetched, scraped or not. */
const fetchEveryMs = 250;
/** From a task that is taken at once to one that waits for a worker to be started; seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/**
 * What of the SDK's own metrics is shown, under the names that its Prometheus exporter gives them (with `_total` and
 * seconds), so that Temporal's dashboards fit. Labels are of closed lists: no id of a workflow is among them.
 * @see https://docs.temporal.io/references/sdk-metrics
 */
const shown = {
  temporal_workflow_task_schedule_to_start_latency: [
    'histogram',
    'How long workflow tasks waited in their queue until a worker took them.',
    ['task_queue'],
  ],
  temporal_activity_schedule_to_start_latency: [
    'histogram',
    'How long activities waited in their queue until a worker took them.',
    ['task_queue'],
  ],
  temporal_workflow_task_execution_latency: [
    'histogram',
    'How long the worker took for workflow tasks.',
    ['task_queue', 'workflow_type'],
  ],
  temporal_workflow_task_execution_failed: [
    'counter',
    'Workflow tasks that failed; the run stands still until one succeeds. NonDeterminismError: code and history do not fit.',
    ['task_queue', 'workflow_type', 'failure_reason'],
  ],
  temporal_workflow_failed: ['counter', 'Workflows that ended as failed.', ['task_queue', 'workflow_type']],
  temporal_worker_task_slots_used: [
    'gauge',
    'Tasks under way, by queue and kind; purser_worker_task_slots is the most.',
    ['task_queue', 'worker_type'],
  ],
  temporal_num_pollers: ['gauge', 'Questions for tasks that are open at the server.', ['task_queue', 'poller_type']],
  temporal_sticky_cache_size: ['gauge', 'Runs that the worker remembers.', ['task_queue']],
  temporal_sticky_cache_hit: ['counter', 'Workflow tasks whose run was remembered.', ['task_queue', 'workflow_type']],
  temporal_sticky_cache_miss: [
    'counter',
    'Workflow tasks whose run should have been remembered, and had to be replayed.',
    ['task_queue', 'workflow_type'],
  ],
  temporal_sticky_cache_total_forced_eviction: ['counter', 'Runs that were forgotten to make room.', ['task_queue']],
  temporal_request: ['counter', 'Calls of the Temporal server that went well.', ['operation']],
  temporal_request_failure: ['counter', 'Calls of the Temporal server that failed.', ['operation', 'status_code']],
  temporal_request_latency: ['histogram', 'How long calls of the Temporal server took.', ['operation']],
  temporal_long_request: [
    'counter',
    'Questions for tasks that the server answered, with one or without.',
    ['operation', 'task_queue'],
  ],
  temporal_long_request_failure: [
    'counter',
    'Questions for tasks that failed; TRANSPORT_ERROR: the server cannot be reached.',
    ['operation', 'task_queue', 'status_code'],
  ],
} as const satisfies Record<
  string,
  readonly [kind: 'counter' | 'histogram' | 'gauge', help: string, labels: readonly string[]]
>;
type Shown = keyof typeof shown;

/** Where the SDK is to put its metrics; given to the runtime before anything else of it is used. */
export function createTemporalBuffer(): MetricsBuffer {
  return new MetricsBuffer({ maxBufferSize: maxUpdates, useSecondsForDurations: true });
}

/**
 * Registers the SDK's metrics and fetches them from then on. They come through this process instead of a second port. A
 * fault in fetching them is told once and ends nothing: the work goes on without these metrics.
 */
export function measureTemporal({
  buffer,
  registry,
  log,
}: {
  buffer: Pick<MetricsBuffer, 'retrieveUpdates'>;
  registry: Registry;
  log: Logger;
}): void {
  const notes = createNotes(registry);
  let isFailing = false;
  const fetch = () => {
    try {
      for (const update of buffer.retrieveUpdates()) notes.get(update.metric.name)?.(update);
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn({ error: String(error) }, 'metrics of the Temporal SDK cannot be fetched');
      isFailing = true;
    }
  };
  setInterval(fetch, fetchEveryMs).unref();
}

type Note = (update: Pick<BufferedMetricUpdate, 'value' | 'attributes'>) => void;

/** How an update is noted, by the name that the SDK gives its metric. */
function createNotes(registry: Registry): ReadonlyMap<string, Note> {
  return new Map(Object.keys(shown).map((name) => [name, createNote(name as Shown, registry)]));
}

function createNote(name: Shown, registry: Registry): Note {
  const [kind, help, names] = shown[name];
  const common = { help, labelNames: [...names], registers: [registry] };
  const labelsOf = (attributes: BufferedMetricUpdate['attributes']) =>
    Object.fromEntries(names.map((label) => [label, String(attributes[label] ?? '')]));
  if (kind === 'counter') {
    const counter = new Counter({ ...common, name: `${name}_total` });
    return ({ attributes, value }) => counter.inc(labelsOf(attributes), value);
  }
  if (kind === 'histogram') {
    const histogram = new Histogram({ ...common, name: `${name}_seconds`, buckets: durationBuckets });
    return ({ attributes, value }) => histogram.observe(labelsOf(attributes), value);
  }
  const gauge = new Gauge({ ...common, name });
  return ({ attributes, value }) => gauge.set(labelsOf(attributes), value);
}

/** As the SDK calls the kinds of tasks in its metrics. */
const workerTypes: Readonly<Record<SlotSize['kind'], string>> = {
  workflow: 'WorkflowWorker',
  activity: 'ActivityWorker',
  'local-activity': 'LocalActivityWorker',
  nexus: 'NexusWorker',
};

/** Registers how many tasks workers take at a time: of slots that are handed out by us the SDK knows only those in use. */
export function measureSlots(registry: Registry): (size: SlotSize) => void {
  const slots = new Gauge({
    name: 'purser_worker_task_slots',
    help: 'Tasks that a worker takes at a time at most, by queue and kind.',
    labelNames: ['task_queue', 'worker_type'],
    registers: [registry],
  });
  return ({ queue, kind, count }) => slots.set({ task_queue: queue, worker_type: workerTypes[kind] }, count);
}
