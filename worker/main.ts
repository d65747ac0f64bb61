import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { NativeConnection, Runtime } from '@temporalio/worker';
import { ConfigError, workerConfig } from '../shared/config.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { createLogger, type Logger } from '../shared/log.ts';
import { ensureSchedules } from './schedules.ts';
import { serve } from './serve.ts';
import { createTemporalLogger } from './temporal-logger.ts';

const connectRetryMs = 1_000;

/** Serves the configured queues until SIGTERM or SIGINT: tasks under way end first. */
async function main(): Promise<void> {
  const config = workerConfig(process.env);
  const logger = createLogger({ process: 'worker', level: config.logLevel });
  Runtime.install({ logger: createTemporalLogger(logger) });
  const connection = await connect(config.temporal, logger);
  const client = new Client({ connection, namespace: config.temporal.namespace });
  let opened: Pool | undefined;
  const pool = () => {
    opened ??= createPool({ ...config.database!, application: 'purser-worker' });
    return opened;
  };
  const served = await Promise.all(
    config.queues.map((queue) => serve[queue]({ config, connection, client, logger, pool })),
  );
  if (config.queues.includes('wallet')) await ensureSchedules(client);
  logger.info({ queues: config.queues }, 'worker is ready');
  try {
    await Promise.all(served.map(({ worker }) => worker.run()));
  } finally {
    await Promise.all(served.map(({ stop }) => stop()));
    await opened?.end();
    await connection.close();
  }
}

/** Temporal may come up after us: waits for it, and says so. */
async function connect(
  { address, tls, apiKey }: ReturnType<typeof workerConfig>['temporal'],
  logger: Logger,
): Promise<NativeConnection> {
  for (;;) {
    try {
      return await NativeConnection.connect({ address, tls, ...(apiKey === undefined ? {} : { apiKey }) });
    } catch (error) {
      logger.warn({ address, error: String(error) }, 'Temporal cannot be reached yet; trying again');
      await delay(connectRetryMs);
    }
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    // A wrong configuration is told to the person at the console; anything else is a fault with a stack.
    console.error(error instanceof ConfigError ? error.message : error);
    process.exit(1);
  },
);
