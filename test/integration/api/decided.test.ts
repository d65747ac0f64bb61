import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { generateKeyPair } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWalletActivities } from '../../../activities/wallet.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { createLogger } from '../../../shared/log.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { patience } from '../../support/patience.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';

/** The queue of decisions is served, those of signers and chain are not: what is allowed stays pending. */
describe('a payment that is decided while its POST waits', () => {
  let temporal: OwnTemporal;
  let api: TestApi;
  let account: TestAccount;
  let pool: Pool;
  let worker: Worker;
  let running: Promise<void>;
  let connections: { close(): Promise<void> }[] = [];

  beforeAll(async () => {
    temporal = await startOwnTemporal();
    api = await startTestApi({ temporalAddress: temporal.address, decisionWaitMs: 10_000 });
    account = await api.account();
    pool = createPool({ url: api.databaseUrl, application: 'test-worker' });
    const connection = await NativeConnection.connect({ address: temporal.address });
    const clientConnection = await Connection.connect({ address: temporal.address });
    connections = [connection, clientConnection];
    const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
    worker = await createWalletWorker({
      connection,
      namespace: 'default',
      workflowBundle: await makeWorkflowBundle(),
      activities: createWalletActivities({
        pool,
        client: new Client({ connection: clientConnection }),
        clock: databaseClock,
        logger: createLogger({ process: 'test', level: 'silent' }),
        policyKey: privateKey,
        maxInFlight: 16,
        patience,
        spareKeys: 0,
        retention: { eventMonths: 13, auditMonths: 25 },
      }),
    });
    running = worker.run();
  });
  afterAll(async () => {
    worker?.shutdown();
    await running;
    await Promise.all(connections.map((each) => each.close()));
    await pool?.end();
    await api?.stop();
    await temporal?.stop();
  });

  async function limitTo(agentId: string, max: string): Promise<string> {
    const body = { agent_id: agentId, type: 'spending_limit', rules: { max_transaction_amount: max } };
    return (await account.call('POST', '/api/v1/policies', body)).body.id;
  }

  it('is answered as pending when no policy stands against it', async () => {
    const agent = await createAgent(account);
    await limitTo(agent.id, '12.5');
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    expect([status, body.status, body.status_detail]).toEqual([200, 'pending', 'policy_check']);
  });

  it('is answered with 400 and every broken rule when denied, and kept as failed', async () => {
    const agent = await createAgent(account);
    const [low, , lower] = [
      await limitTo(agent.id, '10'),
      await limitTo(agent.id, '100'),
      await limitTo(agent.id, '5'),
    ];
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    const violation = (policy_id: string, limit: string) => ({
      policy_id,
      policy_type: 'spending_limit',
      rule: 'max_transaction_amount',
      limit,
      attempted: '12.5',
      used: null,
      remaining: null,
      token: 'USDC',
      resets_at: null,
    });
    const first = violation(low, '10');
    expect(status).toBe(400);
    expect(body).toEqual({
      code: 'policy_violation',
      type: 'invalid_request_error',
      message: expect.stringContaining(low),
      details: {
        transaction_id: expect.stringMatching(/^tx_/),
        ...first,
        violations: [first, violation(lower, '5')],
      },
      request_id: expect.any(String),
    });
    const kept = await account.call('GET', `/api/v1/transactions/${body.details.transaction_id}`);
    expect(kept.body).toMatchObject({ status: 'failed', status_detail: 'failed', failure_code: 'policy_violation' });
    const { body: failed } = await account.call('GET', `/api/v1/transactions?agent_id=${agent.id}&status=failed`);
    expect(failed.data).toEqual([kept.body]);
  });

  it('is judged by the rules as they stand: replaced and deleted policies apply at once', async () => {
    const agent = await createAgent(account);
    const policy = await limitTo(agent.id, '100');
    const pay = async () => (await account.call('POST', '/api/v1/transactions', payment(agent.id))).status;
    expect(await pay()).toBe(200);
    await account.call('PUT', `/api/v1/policies/${policy}`, { rules: { max_transaction_amount: '12.4' } });
    expect(await pay()).toBe(400);
    await account.call('DELETE', `/api/v1/policies/${policy}`);
    expect(await pay()).toBe(200);
  });

  it('is decided for itself when many are asked for at once', async () => {
    const agent = await createAgent(account);
    await limitTo(agent.id, '5');
    const amounts = ['4', '6', '5', '5.000001', '1', '50'];
    const answers = await Promise.all(
      amounts.map((amount) => account.call('POST', '/api/v1/transactions', payment(agent.id, { amount }))),
    );
    expect(answers.map((answer) => answer.status)).toEqual([200, 400, 200, 400, 200, 400]);
  });
});
