import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Runtime, type WorkflowBundleOption } from '@temporalio/worker';
import { type WorkerConfig, workerConfig } from '../shared/config.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { createInstallation, requireInstallation } from '../shared/installation.ts';
import { createLogger, type Logger } from '../shared/log.ts';
import { openMetrics } from '../shared/metrics/open-metrics.ts';
import { measurePool } from '../shared/metrics/pool.ts';
import { createPersistenceStore } from '../shared/persistence-store.ts';
import type { Env } from '../shared/read-env.ts';
import { createStopSignal } from '../shared/stop-signal.ts';
import { tellRequest } from '../shared/tell-request.ts';
import { openTracing } from '../shared/tracing/open-tracing.ts';
import { unknownVariables } from '../shared/unknown-variables.ts';
import { makeWorkflowBundle } from './bundle.ts';
import { createTemporalBuffer, measureSlots, measureTemporal } from './measure-temporal.ts';
import { observe } from './observe.ts';
import { ensureSchedules } from './schedules.ts';
import { type ServeDependencies, serve } from './serve.ts';
import { createSlotGate } from './slot-gate.ts';
import { createTemporalLogger } from './temporal-logger.ts';

const connectRetryMs = 1_000;
/** Longer than the server holds a question for a task (`matching.longPollExpirationInterval`). */
const longestDrainMs = 6_000;
/**
 * How long a worker that stops waits for a task that is on its way to it, before it gives up asking; the server ends the
 * asking itself where it can (`frontend.enableCancelWorkerPollsOnShutdown`). A task that is on its way all the same
 * is repeated after its timeout, as when a worker is killed.
 */
const lastTaskWaitMs = 1_000;

/**
 * Serves the configured queues until SIGTERM or SIGINT: no more tasks are asked for, those under way end first. See
 * shared/stop-signal.ts for the second signal and the limit.
 * @throws ConfigError
 */
export async function runWorker({
  env,
  wrap = (activities) => activities,
}: {
  env: Env;
  wrap?: ServeDependencies['wrap'];
}): Promise<void> {
  const config = workerConfig(env);
  const logger = createLogger({ process: 'worker', level: config.logLevel });
  for (const sentence of unknownVariables(env)) logger.warn(sentence);
  const stopping = createStopSignal({ log: logger });
  process.env.TEMPORAL_POLL_SHUTDOWN_INTERRUPT_WAIT_MS ??= String(lastTaskWaitMs);
  const temporalMetrics = config.metrics && createTemporalBuffer();
  // Told to stop, we first ask for nothing more; the runtime itself would end the workers at once.
  Runtime.install({
    logger: createTemporalLogger(logger),
    // Else it writes lines of its own, which are no JSON and know no payment.
    telemetryOptions: {
      logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } },
      ...(temporalMetrics && { metrics: { buffer: temporalMetrics } }),
    },
    shutdownSignals: [],
  });
  const metrics = await openMetrics(config.metrics, { process: 'worker', log: logger });
  if (temporalMetrics) measureTemporal({ buffer: temporalMetrics, registry: metrics.registry, log: logger });
  let opened: Pool | undefined;
  const pool = () => {
    if (!opened) {
      opened = createPool({ ...config.database!, application: 'purser-worker' });
      measurePool(opened, metrics.registry);
    }
    return opened;
  };
  const [connection] = await Promise.all([
    connect(config.temporal, { logger, stopping }),
    checkInstallation(config, { pool: config.database && pool(), logger, stopping }),
  ]);
  if (!connection || stopping.aborted) return;
  const gate = createSlotGate({ tell: measureSlots(metrics.registry) });
  const tracing = await openTracing(config.traces, {
    ...{ service: 'purser-worker', environment: config.environment, log: logger },
  });
  const client = new Client({
    ...{ connection, namespace: config.temporal.namespace },
    interceptors: { workflow: [...(tracing?.clientInterceptors ?? []), tellRequest] },
  });
  let bundle: Promise<WorkflowBundleOption> | undefined;
  const workflowBundle = () => {
    bundle ??= config.workflowBundle ? Promise.resolve({ codePath: config.workflowBundle }) : makeWorkflowBundle();
    return bundle;
  };
  const deps = {
    config,
    connection,
    client,
    logger,
    pool,
    workflowBundle,
    wrap,
    gate,
    tracing,
    metrics: metrics.registry,
    observed: observe(tracing, metrics.registry),
  };
  const served = await Promise.all(config.queues.map((queue) => serve[queue](deps)));
  const workers = served.flatMap((role) => role.workers);
  if (config.queues.includes('wallet')) await ensureSchedules(client, { ...config, chains: config.registry.enabled });
  const stop = async () => {
    await Promise.race([gate.close(), delay(longestDrainMs)]);
    for (const worker of workers) worker.shutdown();
  };
  logger.info({ queues: config.queues }, 'worker is ready');
  try {
    const running = workers.map((worker) => worker.run());
    stopping.addEventListener('abort', stop, { once: true });
    if (stopping.aborted) void stop();
    await Promise.all(running);
  } finally {
    await Promise.all(served.map(({ stop }) => stop()));
    await opened?.end();
    await connection.close();
    await tracing?.stop();
    await metrics.stop();
    logger.info('stopped');
  }
}

/** Waits until it is known that the process may work with its database and its Temporal. @throws ConfigError */
async function checkInstallation(
  config: WorkerConfig,
  { pool, logger, stopping }: { pool: Pool | undefined; logger: Logger; stopping: AbortSignal },
): Promise<void> {
  const { address, tls, apiKey } = config.temporal;
  const connection = Connection.lazy({ address, tls, ...(apiKey !== undefined && { apiKey }) });
  const installation = createInstallation({
    environment: config.environment,
    secrets: [
      { name: 'PURSER_POLICY_KEY_FILE', path: config.policyKeyFile },
      { name: 'PURSER_COORDINATOR_KEY_FILE', path: config.coordinatorKeyFile },
      { name: 'PURSER_WEBHOOK_KEYS_FILE', path: config.webhookKeysFile },
    ],
    pool,
    persistenceStore: createPersistenceStore(connection),
  });
  try {
    await requireInstallation({ installation, log: logger, signal: stopping });
  } finally {
    await connection.close();
  }
}

/** Temporal may come up after us: waits for it, and says so. @returns nothing when told to stop before */
async function connect(
  { address, tls, apiKey }: WorkerConfig['temporal'],
  { logger, stopping }: { logger: Logger; stopping: AbortSignal },
): Promise<NativeConnection | undefined> {
  for (let tries = 0; !stopping.aborted; tries += 1) {
    try {
      return await NativeConnection.connect({ address, tls, ...(apiKey === undefined ? {} : { apiKey }) });
    } catch (error) {
      if (tries === 0) logger.warn({ address, error: String(error) }, 'Temporal cannot be reached yet; trying again');
      await delay(connectRetryMs, undefined, { signal: stopping }).catch(() => {});
    }
  }
  return undefined;
}
