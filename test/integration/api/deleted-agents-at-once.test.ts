import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testTokenEnv } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { callWith, createAgent, payment, type TestAccount } from './harness.ts';
import { type ApiWithChain, startApiWithChain } from './with-chain.ts';

const rounds = 40;

let world: ApiWithChain;
let account: TestAccount;
let processes: ApiProcess[];

beforeAll(async () => {
  world = await startApiWithChain({ hasDead: false });
  account = await world.api.account();
  const where = { databaseUrl: world.api.databaseUrl, temporalAddress: world.temporalAddress };
  const env = { ...(await testTokenEnv()), PURSER_DECISION_WAIT_MS: '50' };
  const start = () => startApiProcess({ ...where, usdc: world.local.usdcAddress, env });
  processes = await Promise.all([start(), start()]);
});
afterAll(async () => {
  await Promise.all((processes ?? []).map((each) => each.kill()));
  await world?.stop();
});

/** A payment that waits for a person, so that it stays under way. */
async function askingAgent(): Promise<string> {
  const { id } = await createAgent(account);
  const rules = { threshold: '0', approvers: ['ann@example.com'] };
  await account.call('POST', '/api/v1/policies', { agent_id: id, type: 'human_approval', rules });
  return id;
}

it('is either deleted or pays, whichever comes first, at two processes', async () => {
  const [paying, deleting] = processes.map(({ url }) => callWith(url, { 'x-api-key': account.key }));
  const first = await askingAgent();
  const startedAt = performance.now();
  expect((await deleting!('DELETE', `/api/v1/agents/${first}`)).status).toBe(200);
  const usualMs = performance.now() - startedAt;
  const deleted: boolean[] = [];
  const isMissing = (end: boolean) => !deleted.includes(end);
  for (let round = 0; round < rounds || isMissing(true) || isMissing(false); round += 1) {
    const id = await askingAgent();
    // The payment meets each part of the deletion: the look at what is under way, the chains, the lock, the end. Where the
    // machine has become faster or slower meanwhile, it comes sooner or later than that.
    const afterMs = round < rounds || isMissing(true) ? (usualMs * 1.5 * round) / rounds : 0;
    const beforeMs = round < rounds || isMissing(true) ? 0 : (usualMs * (round - rounds)) / rounds;
    const [removed, paid] = await Promise.all([
      delay(beforeMs).then(() => deleting!('DELETE', `/api/v1/agents/${id}`)),
      delay(afterMs).then(() => paying!('POST', '/api/v1/transactions', payment(id))),
    ]);
    const { rows } = await world.api.pool.query<{ status: string }>(
      'select status from transactions where agent_id = $1',
      [id],
    );
    if (removed.status === 200) {
      expect([paid.status, paid.body.code, paid.body.param, rows]).toEqual([400, 'invalid_request', 'agent_id', []]);
    } else {
      expect([removed.status, removed.body.details.transactions]).toEqual([400, [paid.body.id]]);
      expect([paid.status, rows]).toEqual([200, [{ status: 'pending' }]]);
      expect((await account.call('GET', `/api/v1/agents/${id}`)).body.status).toBe('active');
    }
    deleted.push(removed.status === 200);
  }
});
