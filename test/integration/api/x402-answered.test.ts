import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { generateKeyPair } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWalletActivities } from '../../../activities/wallet.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import type { SessionRow } from '../../../shared/db/x402-sessions.ts';
import { createLogger } from '../../../shared/log.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { eventually } from '../../support/client.ts';
import { patience } from '../../support/patience.ts';
import type { TestTarget } from '../../support/target.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, type KeyedAnswer, newKey, withKey } from './idempotency-calls.ts';
import { expectBalancedBooks, openSession, startShop } from './x402-calls.ts';

let temporal: OwnTemporal;
let api: TestApi;
let account: TestAccount;
let shop: TestTarget;
let pool: Pool;
let post: ReturnType<typeof createKeyedCalls>['post'];

beforeAll(async () => {
  [temporal, shop] = await Promise.all([startOwnTemporal(), startShop()]);
  api = await startTestApi({ temporalAddress: temporal.address, decisionWaitMs: 30_000 });
  account = await api.account();
  pool = createPool({ url: api.databaseUrl, application: 'test-worker' });
  post = createKeyedCalls({ url: api.url, account }).post;
});
afterAll(async () => {
  await pool?.end();
  await shop?.stop();
  await api?.stop();
  await temporal?.stop();
});

/** The worker of decisions alone: nobody signs. */
async function startWorker(): Promise<() => Promise<void>> {
  const { address } = temporal;
  const connection = await NativeConnection.connect({ address });
  const clientConnection = await Connection.connect({ address });
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
  const worker: Worker = await createWalletWorker({
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
  const running = worker.run();
  return async () => {
    worker.shutdown();
    await running;
    await Promise.all([connection.close(), clientConnection.close()]);
  };
}

const pay = (session: SessionRow, headers: Record<string, string>) =>
  post(`/x402/sessions/${session.id}/pay`, { target_url: `${shop.url}/10000` }, headers);

describe('an x402 payment that is answered while its POST waits', () => {
  /** Sent and stored, and not answered; then something changes. */
  async function underWay(change: (o: { agentId: string; session: SessionRow }) => Promise<unknown>) {
    const { id: agentId } = await createAgent(account);
    const session = await openSession(api, { account, agentId });
    const headers = withKey(newKey());
    const answer = pay(session, headers);
    await eventually(
      () => expectBalancedBooks(api, session.id),
      ({ payments }) => payments.length === 1,
    );
    await change({ agentId, session });
    return { session, headers, answer };
  }

  it('is refused with its id for what has changed meanwhile, takes nothing, and is so for every repeat', async () => {
    const policy = (agent_id: string, type: string, rules: object) =>
      account.call('POST', '/api/v1/policies', { agent_id, type, rules });
    const sent = await Promise.all([
      underWay(({ session }) => account.call('DELETE', `/api/v1/x402/sessions/${session.id}`)),
      underWay(({ agentId }) => account.call('PUT', `/api/v1/agents/${agentId}/status`, { status: 'inactive' })),
      underWay(({ agentId }) => policy(agentId, 'spending_limit', { daily_limit: '0.009' })),
      underWay(({ agentId }) => policy(agentId, 'human_approval', { threshold: '0', approvers: ['ann@example.com'] })),
    ]);
    const stopWorker = await startWorker();
    const [deleted, inactive, denied, asked] = (await Promise.all(sent.map(({ answer }) => answer))) as [
      KeyedAnswer,
      KeyedAnswer,
      KeyedAnswer,
      KeyedAnswer,
    ];
    await stopWorker();
    const refusals = [deleted, inactive, denied];
    expect(refusals.map(({ status, body }) => [status, body.code])).toEqual([
      [400, 'session_expired'],
      [400, 'agent_inactive'],
      [400, 'policy_violation'],
    ]);
    expect(denied.body.details).toMatchObject({ rule: 'daily_limit', violations: [{ rule: 'daily_limit' }] });
    expect([asked.status, asked.body.status_detail, asked.body.approval.status]).toEqual([
      200,
      'awaiting_approval',
      'pending',
    ]);
    for (const [i, { session, headers }] of sent.entries()) {
      const { payments, spent } = await expectBalancedBooks(api, session.id);
      const first = [deleted, inactive, denied, asked][i]!;
      expect(payments.map(({ id, status }) => [id, status])).toEqual([
        [first.body.details?.ledger_id ?? first.body.ledger_id, i < 3 ? 'failed' : 'pending'],
      ]);
      expect(spent).toBe(i < 3 ? 0n : 10_000n);
      expect(await pay(session, headers)).toMatchObject({ replayed: 'true', text: first.text });
    }
  });
});
