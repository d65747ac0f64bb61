import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { generateKeyPair } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWalletActivities } from '../../../activities/wallet.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { insertPolicy } from '../../../shared/db/policies.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { getTransaction, type TransactionRow } from '../../../shared/db/transactions.ts';
import { newId } from '../../../shared/ids.ts';
import { createLogger } from '../../../shared/log.ts';
import { workflowNames } from '../../../shared/temporal.ts';
import { transactionStart } from '../../../shared/transaction-start.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { patience } from '../../support/patience.ts';
import { insertTestAgent, insertTestPayment } from '../../support/rows.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';

const answerMs = 1_500;

/** Nobody serves the chain's queue, as when every worker that reaches it is away. */
describe('a payment that waits for a person while the chain cannot be asked', () => {
  let temporal: OwnTemporal;
  let database: TestDatabase;
  let pool: Pool;
  let worker: Worker;
  let running: Promise<void>;
  let client: Client;
  let connections: { close(): Promise<void> }[] = [];

  beforeAll(async () => {
    [temporal, database] = await Promise.all([startOwnTemporal(), createTestDatabase()]);
    pool = createPool({ url: database.url, application: 'test' });
    const connection = await NativeConnection.connect({ address: temporal.address });
    const clientConnection = await Connection.connect({ address: temporal.address });
    connections = [connection, clientConnection];
    client = new Client({ connection: clientConnection });
    const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
    const activities = createWalletActivities({
      pool,
      client,
      clock: databaseClock,
      logger: createLogger({ process: 'test', level: 'silent' }),
      policyKey: privateKey,
      maxInFlight: 16,
      patience,
      spareKeys: 0,
      retention: { eventMonths: 13, auditMonths: 25 },
    });
    worker = await createWalletWorker({
      connection,
      namespace: 'default',
      workflowBundle: await makeWorkflowBundle(),
      activities: {
        ...activities,
        // A minute is the shortest time that a policy can give; the test has less of it.
        async evaluatePolicy(id) {
          const result = await activities.evaluatePolicy(id);
          await pool.query(
            `update approvals set expires_at = now() + $2 * interval '1 millisecond' where payment_id = $1`,
            [id, answerMs],
          );
          return 'answerWithinMs' in result ? { ...result, answerWithinMs: answerMs } : result;
        },
      },
    });
    running = worker.run();
  });
  afterAll(async () => {
    worker?.shutdown();
    await running;
    await Promise.all(connections.map((each) => each.close()));
    await pool?.end();
    await temporal?.stop();
    await database?.drop();
  });

  it('expires by its timeout all the same', async () => {
    const agent = await insertTestAgent(pool);
    const rules = { threshold: '0', approvers: ['a@example.com'], timeout_seconds: 60, required_approvals: 1 };
    await insertPolicy(pool, { id: newId('pol'), ...agent, type: 'human_approval', rules });
    const id = await insertTestPayment(pool, agent);
    const row = (await getTransaction(pool, { id })) as TransactionRow;
    const result = await client.workflow.execute(workflowNames.transaction, transactionStart(row));
    expect(result).toBe('failed');
    expect(await getTransaction(pool, { id })).toMatchObject({ status: 'failed', failure_code: 'approval_timeout' });
    const { rows } = await pool.query(`select type from events where agent_id = $1 order by created_at, id`, [
      agent.agentId,
    ]);
    expect(rows.map(({ type }) => type)).toEqual(['approval.requested', 'approval.expired', 'payment.failed']);
  });
});
