import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool } from '../../../shared/db/pool.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const recoveryMs = 120_000;

describe('an outage', () => {
  let temporal: OwnTemporal;
  let api: TestApi;
  let account: TestAccount;
  let agent: { id: string };

  beforeAll(async () => {
    temporal = await startOwnTemporal();
    api = await startTestApi({ temporalAddress: temporal.address, decisionWaitMs: 300 });
    account = await api.account();
    agent = await createAgent(account);
  });
  afterAll(async () => {
    await api?.stop();
    await temporal?.stop();
  });

  const pay = () => account.call('POST', '/api/v1/transactions', payment(agent.id));

  it('of Postgres connections never loses a payment that was answered, nor answers 500', async () => {
    const other = createPool({ url: api.databaseUrl, application: 'test-breaker', max: 1 });
    const breaker = { stopped: false };
    const breaking = (async () => {
      while (!breaker.stopped)
        await other.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'test-api'",
        );
    })();
    const answers = [];
    for (let round = 0; round < 8; round += 1) answers.push(...(await Promise.all([pay(), pay(), pay()])));
    breaker.stopped = true;
    await breaking;
    await other.end();
    for (const { status, headers } of answers) {
      expect([200, 503]).toContain(status);
      if (status === 503) expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
    const stored = await account.call('GET', '/api/v1/transactions?page_size=100');
    const ids = new Set(stored.body.data.map((row: { id: string }) => row.id));
    for (const { status, body } of answers) if (status === 200) expect(ids).toContain(body.id);
    // What was refused without naming a payment was not stored.
    const named = answers.filter((answer) => answer.body.id ?? answer.body.details?.transaction_id);
    expect(ids.size).toBeLessThanOrEqual(named.length);
  });

  it('of Temporal delays the decision only, and ends without a restart of the api', async () => {
    process.kill(temporal.pid(), 'SIGKILL');
    const during = await pay();
    expect([during.status, during.body.status]).toEqual([200, 'pending']);
    await temporal.restart();
    const connection = await Connection.connect({ address: temporal.address });
    const { workflow } = new Client({ connection });
    const endMs = performance.now() + recoveryMs;
    let started = false;
    while (!started) {
      const { body } = await pay();
      started = await workflow
        .getHandle(body.id)
        .describe()
        .then(
          () => true,
          () => false,
        );
      expect(performance.now()).toBeLessThan(endMs);
    }
    await connection.close();
  });
});
