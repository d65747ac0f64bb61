import { Client, Connection, WithStartWorkflowOperation } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSigningActivities } from '../../../activities/signing.ts';
import { createWalletActivities } from '../../../activities/wallet.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { getX402Payment } from '../../../shared/db/x402-payments.ts';
import { getSession } from '../../../shared/db/x402-sessions.ts';
import { createLogger } from '../../../shared/log.ts';
import { messageNames, workflowNames } from '../../../shared/temporal.ts';
import { releaseSession } from '../../../shared/x402-budget.ts';
import { x402PaymentStart, x402SessionStart } from '../../../shared/x402-start.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createSigningWorker } from '../../../worker/signing.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { eventually } from '../../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { patience } from '../../support/patience.ts';
import { insertTestAgent } from '../../support/rows.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { insertTestLedger, insertTestSession } from '../../support/x402-ledger.ts';

/** The signers run and have no key of the wallet's; nobody serves the chain's queue. */
describe('a payment out of an x402 session that the signers do not sign', () => {
  let temporal: OwnTemporal;
  let database: TestDatabase;
  let signers: TestSigners;
  let pool: Pool;
  let client: Client;
  let signer: SignerClient;
  let workers: Worker[] = [];
  let running: Promise<void>[] = [];
  let connections: { close(): Promise<void> }[] = [];

  beforeAll(async () => {
    [temporal, database, signers] = await Promise.all([startOwnTemporal(), createTestDatabase(), startSigners()]);
    pool = createPool({ url: database.url, application: 'test' });
    const connection = await NativeConnection.connect({ address: temporal.address });
    const clientConnection = await Connection.connect({ address: temporal.address });
    connections = [connection, clientConnection];
    client = new Client({ connection: clientConnection });
    signer = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
    const common = { connection, namespace: 'default' };
    const wallet = createWalletActivities({
      ...{ pool, client, clock: databaseClock, policyKey: signers.policyKey, maxInFlight: 16, spareKeys: 0, patience },
      retention: { eventMonths: 13, auditMonths: 25 },
      logger: createLogger({ process: 'test', level: 'silent' }),
    });
    const workflowBundle = await makeWorkflowBundle();
    workers = await Promise.all([
      createWalletWorker({ ...common, workflowBundle, activities: wallet }),
      createSigningWorker({ ...common, activities: createSigningActivities({ signer }) }),
    ]);
    running = workers.map((worker) => worker.run());
  });
  afterAll(async () => {
    for (const worker of workers) worker.shutdown();
    await Promise.all(running);
    signer?.close();
    await Promise.all(connections.map((each) => each.close()));
    await pool?.end();
    await Promise.all([temporal?.stop(), database?.drop(), signers?.stop()]);
  });

  async function make(o: Parameters<typeof insertTestLedger>[2] = {}) {
    const session = await insertTestSession(pool, await insertTestAgent(pool));
    return { session, row: await insertTestLedger(pool, session, o) };
  }
  const payment = async (id: string) => (await getX402Payment(pool, { id }))!;
  const timersOf = async (id: string) =>
    ((await client.workflow.getHandle(id).fetchHistory()).events ?? []).filter(
      (event) => event.timerStartedEventAttributes,
    );

  it('is answered as soon as they refuse it, and keeps what it took until what was stamped is over', async () => {
    const { session, row } = await make();
    const startWorkflowOperation = new WithStartWorkflowOperation(workflowNames.x402Payment, {
      ...x402PaymentStart(row),
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
    const answer = await client.workflow.executeUpdateWithStart(messageNames.authorization, {
      startWorkflowOperation,
    });
    expect(answer).toEqual({ outcome: 'ending' });
    expect(await payment(row.id)).toMatchObject({
      ...{ status: 'pending', ending_code: 'signing_failed', settlement: 'unsettled', payment_signature: null },
      ending_message: expect.stringMatching(/key/),
    });
    expect(await getSession(pool, { id: session.id })).toMatchObject({ spent_minor: '10100' });
    // It waits for the end of the authorisation, whatever hints anybody sends.
    const handle = client.workflow.getHandle(row.id);
    for (const name of [messageNames.chainState, messageNames.approve, messageNames.lookAgain])
      await handle.signal(name);
    const [timer] = await eventually(
      () => timersOf(row.id),
      (timers) => timers.length >= 1,
    );
    const waitSeconds = Number(timer?.timerStartedEventAttributes?.startToFireTimeout?.seconds);
    expect(waitSeconds).toBeGreaterThan(250);
    const { events } = await handle.fetchHistory();
    expect(
      events?.some((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'checkAuthorization'),
    ).toBe(false);
  });

  it('ends its session by the word of whoever has deleted it, and by no other', async () => {
    const { session } = await make();
    const handle = await client.workflow.start(workflowNames.x402Session, x402SessionStart(session));
    await handle.signal(messageNames.sessionEnded);
    await eventually(
      async () => (await timersOf(session.id)).length,
      (count) => count >= 1,
    );
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await inTransaction(pool, async (db) => releaseSession(db, { session, by: 'deletion' }));
    await handle.signal(messageNames.sessionEnded);
    expect(await handle.result()).toBeUndefined();
  });
});
