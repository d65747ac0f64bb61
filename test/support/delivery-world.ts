import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import type { JWK } from 'jose';
import { pino } from 'pino';
import { createDeliveryActivities } from '../../activities/deliveries.ts';
import { createDispatcher } from '../../activities/dispatch-deliveries.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import type { DeliverySchedule } from '../../shared/domain/delivery-schedule.ts';
import { createHttpGuard } from '../../shared/http-guard.ts';
import { makeWorkflowBundle } from '../../worker/bundle.ts';
import { createDeliveryWorker } from '../../worker/deliveries.ts';
import { certificate } from './certificate.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { type OwnTemporal, startOwnTemporal } from './temporal.ts';
import { newSecretKey, secretBox } from './webhook-rows.ts';

/** Part of the role `wallet-webhooks` that delivers: a worker and a dispatcher. */
export interface RunningDelivery {
  stop(): Promise<void>;
}

/** All that deliveries need, and nothing else. */
export interface DeliveryWorld {
  readonly pool: Pool;
  readonly database: TestDatabase;
  readonly client: Client;
  readonly temporal: OwnTemporal;
  readonly key: JWK;
  /** @param schedule that of the decisions, unless one is given */
  serve(o?: { schedule?: DeliverySchedule; timeoutMs?: number }): Promise<RunningDelivery>;
  stop(): Promise<void>;
}

export async function startDeliveryWorld(): Promise<DeliveryWorld> {
  const [temporal, database, key] = await Promise.all([startOwnTemporal(), createTestDatabase(), newSecretKey()]);
  const pool = createPool({ url: database.url, application: 'test', max: 20 });
  const connection = await NativeConnection.connect({ address: temporal.address });
  const clientConnection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection: clientConnection });
  const logger = pino({ level: 'silent' });
  let bundle: Promise<WorkflowBundleWithSourceMap> | undefined;
  return {
    ...{ pool, database, client, temporal, key },
    async serve({ schedule, timeoutMs = 15_000 } = {}) {
      bundle ??= makeWorkflowBundle();
      const worker = await createDeliveryWorker({
        connection,
        namespace: 'default',
        workflowBundle: await bundle,
        activities: createDeliveryActivities({
          ...{ pool, clock: databaseClock, logger, livemode: false, ...secretBox(key) },
          guard: createHttpGuard({ allowLoopback: true, extraCa: certificate.cert, timeoutMs }),
          ...(schedule && { schedule }),
        }),
      });
      const running = worker.run();
      const dispatcher = createDispatcher({ pool, client: new Client({ connection }), logger });
      dispatcher.start();
      return {
        async stop() {
          await dispatcher.stop();
          worker.shutdown();
          await running;
        },
      };
    },
    async stop() {
      await Promise.all([connection.close(), clientConnection.close(), pool.end()]);
      await Promise.all([temporal.stop(), database.drop()]);
    },
  };
}
