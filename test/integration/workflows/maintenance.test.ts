import { NativeConnection, type Worker } from '@temporalio/worker';
import { generateKeyPair } from 'jose';
import pg from 'pg';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createWalletActivities } from '../../../activities/wallet.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { makeNextPartition } from '../../../shared/db/partitions.ts';
import { createPool } from '../../../shared/db/pool.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { readyMonths } from '../../../worker/ready-months.ts';
import { ensureSchedules } from '../../../worker/schedules.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { eventually } from '../../support/client.ts';
import { createTestDatabase } from '../../support/database.ts';
import { type DeliveryWorld, type RunningDelivery, startDeliveryWorld } from '../../support/delivery-world.ts';
import { insertEventAt, makePartition, monthStart, partitionName } from '../../support/months.ts';
import { patience } from '../../support/patience.ts';

const patient = { timeoutMs: 60_000 };

describe('the daily maintenance', () => {
  let world: DeliveryWorld;
  let deliveries: RunningDelivery;
  let connection: NativeConnection;
  let worker: Worker;
  let running: Promise<void>;

  beforeAll(async () => {
    world = await startDeliveryWorld();
    deliveries = await world.serve();
    connection = await NativeConnection.connect({ address: world.temporal.address });
    const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
    worker = await createWalletWorker({
      ...{ connection, namespace: 'default', workflowBundle: await makeWorkflowBundle() },
      activities: createWalletActivities({
        ...{ pool: world.pool, client: world.client, clock: databaseClock, policyKey: privateKey, patience },
        ...{ maxInFlight: 16, spareKeys: 0, retention: { eventMonths: 2, auditMonths: 25 } },
        logger: pino({ level: 'silent' }),
      }),
    });
    running = worker.run();
  });
  afterAll(async () => {
    await deliveries?.stop();
    worker?.shutdown();
    await running;
    await connection?.close();
    await world?.stop();
  });

  it('is scheduled, keeps the months as the configuration says, and tells the operator what it did', async () => {
    const owner = createPool({ url: world.database.ownerUrl, application: 'test' });
    try {
      await owner.query(`drop table ${partitionName('events', 3)}`);
      await makePartition(owner, { table: 'events', offset: -3 });
      await insertEventAt(world.pool, { accountId: 'acct_1', at: monthStart(-9) });
    } finally {
      await owner.end();
    }
    await ensureSchedules(world.client, { keyRefreshDays: 30, environment: 'sandbox', gasCheckMinutes: 5, chains: [] });
    const handle = world.client.schedule.getHandle('maintenance');
    await handle.trigger();
    const { workflowId } = await eventually(
      async () => (await handle.describe()).info.recentActions[0]!.action.workflow,
      (started) => started.workflowId !== undefined,
      patient,
    );
    const workflow = world.client.workflow.getHandle(workflowId);
    expect(await workflow.result()).toEqual({
      months: {
        made: [partitionName('events', 3)],
        dropped: [partitionName('events', -3)],
        staying: [],
        misplaced: [{ table: 'events', month: monthStart(-9).toISOString().slice(0, 7), count: 1 }],
      },
      secrets: { resealed: 0, unopened: 0 },
    });
    const { currentDetails } = await workflow.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain(`Made ${partitionName('events', 3)}.\nDropped ${partitionName('events', -3)}.\n`);
    expect(currentDetails).toContain('1 rows of events of ');
  });
});

describe('a worker that starts', () => {
  it('makes the months that are missing, as soon as the database is up', async () => {
    const database = await createTestDatabase();
    const rename = async (from: string, to: string) => {
      const client = new pg.Client({ connectionString: inject('stack').superuserUrl });
      await client.connect();
      await client.query(`alter database ${from} rename to ${to}`).finally(() => client.end());
    };
    const name = new URL(database.url).pathname.slice(1);
    const logged: string[] = [];
    const logger = pino({}, { write: (line: string) => void logged.push(JSON.parse(line).msg) });
    const owner = createPool({ url: database.ownerUrl, application: 'test' });
    await owner.query(`drop table ${partitionName('audit_logs', 2)}`);
    await owner.end();
    await rename(name, `${name}_away`);
    const pool = createPool({ url: database.url, application: 'test' });
    try {
      const ready = readyMonths({ pool, logger });
      await eventually(
        async () => logged,
        (lines) => lines.length === 1,
        patient,
      );
      await rename(`${name}_away`, name);
      await ready;
      expect(logged).toEqual(['no room was made for the months to come yet', 'made room for a month']);
      expect(await makeNextPartition(pool, { monthsAhead: 3 })).toBeUndefined();
    } finally {
      await pool.end();
      await database.drop();
    }
  });
});
