import pg from 'pg';
import type { Address } from 'viem';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createAgent, type TestAccount } from './harness.ts';
import { newKey, withKey } from './idempotency-calls.ts';
import { type ApiWithChain, startApiWithChain } from './with-chain.ts';
import { expire, openSession } from './x402-calls.ts';

describe('counts by plan', () => {
  let world: ApiWithChain;
  let account: TestAccount;
  beforeAll(async () => {
    world = await startApiWithChain();
  });
  afterAll(() => world?.stop());
  beforeEach(async () => {
    account = await world.api.account({ plan: 'enterprise' });
  });

  const setPlan = (plan: string) =>
    world.api.pool.query('update accounts set plan = $2 where id = $1', [account.id, plan]);
  const webhook = (index: number) => ({
    url: `https://hooks.example.org/${index}`,
    secret: 'whsec_0123456789abcdefghij',
  });
  const postWebhook = (index: number, headers = {}) =>
    account.call('POST', '/api/v1/webhooks', webhook(index), headers);
  const postAgent = (index: number) =>
    account.call('POST', '/api/v1/agents', { agent_name: `own ${index}`, chain: 'eip155:31337' });

  it('refuse one more than the plan allows, with a word on plan, count and limit, and let in again what was deleted for', async () => {
    const ids: string[] = [];
    for (let index = 0; index < 10; index += 1) ids.push((await postWebhook(index)).body.id);
    await setPlan('starter');
    const refused = await postWebhook(10);
    expect([refused.status, refused.body]).toEqual([
      403,
      {
        code: 'insufficient_permissions',
        type: 'authorization_error',
        message:
          'The starter plan allows 10 webhooks; this account has 10. Delete one that is not needed, or have the operator set another plan.',
        details: { plan: 'starter', limit: 10, count: 10 },
        request_id: expect.any(String),
      },
    ]);
    await account.call('DELETE', `/api/v1/webhooks/${ids[0]}`);
    expect([(await postWebhook(10)).status, (await postWebhook(11)).status]).toEqual([200, 403]);
    await setPlan('growth');
    expect((await postWebhook(11)).status).toBe(200);
  });

  it('leave what is there after a downgrade, and refuse more', async () => {
    for (let index = 0; index < 12; index += 1) await postAgent(index);
    await setPlan('starter');
    expect((await account.call('GET', '/api/v1/agents')).body.total).toBe(12);
    const { status, body } = await postAgent(12);
    expect([status, body.message]).toEqual([
      403,
      expect.stringMatching(/^The starter plan allows 10 agents; this account has 12\./),
    ]);
    const remove = (name: string) =>
      world.api.pool.query(
        `update agents set status = 'inactive', deleted_at = now() where account_id = $1 and agent_name = $2`,
        [account.id, name],
      );
    await Promise.all([remove('own 0'), remove('own 1')]);
    expect((await postAgent(12)).body.message).toMatch(/this account has 10\./);
    await remove('own 2');
    expect([(await postAgent(12)).status, (await postAgent(13)).status]).toEqual([200, 403]);
    await setPlan('enterprise');
    expect((await postAgent(13)).status).toBe(200);
  });

  it('keep no refusal for a repeat with its Idempotency-Key', async () => {
    const ids: string[] = [];
    for (let index = 0; index < 10; index += 1) ids.push((await postWebhook(index)).body.id);
    await setPlan('starter');
    const key = withKey(newKey());
    expect((await postWebhook(10, key)).status).toBe(403);
    await account.call('DELETE', `/api/v1/webhooks/${ids[0]}`);
    const made = await postWebhook(10, key);
    expect([made.status, made.headers.get('idempotent-replayed')]).toEqual([200, null]);
    const again = await postWebhook(10, key);
    expect([again.status, again.headers.get('idempotent-replayed'), again.body.id]).toEqual([
      200,
      'true',
      made.body.id,
    ]);
  });

  it('are of each account by itself', async () => {
    for (let index = 0; index < 10; index += 1) await postWebhook(index);
    const other = await world.api.account({ plan: 'starter' });
    expect((await other.call('POST', '/api/v1/webhooks', webhook(0))).status).toBe(200);
  });

  it('take x402 sessions for as long as they are active, also of several that are made at once', async () => {
    const agent = await createAgent(account);
    await world.local.fund(agent.address as Address, { eth: '1', usdc: '20' });
    const open = Array.from({ length: 49 }, () =>
      openSession(world.api, { account, agentId: agent.id, budgetMinor: 1n }),
    );
    const [first, second] = await Promise.all(open);
    await setPlan('starter');
    const post = () =>
      account.call('POST', '/api/v1/x402/sessions', {
        ...{ agent_id: agent.id, budget_limit: '0.01', chain: 'eip155:31337', ttl_seconds: 60 },
      });
    const answers = await Promise.all(Array.from({ length: 5 }, post));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 403, 403, 403, 403]);
    expect(answers.find(({ status }) => status === 403)!.body.message).toMatch(
      /^The starter plan allows 50 active x402 sessions; this account has 50\./,
    );
    await account.call('DELETE', `/api/v1/x402/sessions/${first!.id}`);
    expect([(await post()).status, (await post()).status]).toEqual([200, 403]);
    // Its time is over; the worker that is to end it has not been there yet.
    await expire(world.api, second!);
    expect([(await post()).status, (await post()).status]).toEqual([200, 403]);
  });

  it('allow 20 policies an agent on every plan, and say so', async () => {
    const agent = await createAgent(account);
    const post = () =>
      account.call('POST', '/api/v1/policies', {
        agent_id: agent.id,
        type: 'velocity_control',
        rules: { max_count: 5, window_seconds: 60 },
      });
    for (let index = 0; index < 20; index += 1) expect((await post()).status).toBe(200);
    const { status, body } = await post();
    expect([status, body.code, body.message]).toEqual([
      403,
      'insufficient_permissions',
      expect.stringMatching(/has 20 policies; at most 20 may be attached, on every plan/),
    ]);
  });

  it('cost nothing where the plan allows any number', async () => {
    const query = vi.spyOn(pg.Client.prototype, 'query');
    try {
      expect([(await postAgent(0)).status, (await postWebhook(0)).status]).toEqual([200, 200]);
      const statements = query.mock.calls.map(([text]) => String(text));
      expect(statements.some((text) => text.includes('insert into webhooks'))).toBe(true);
      expect(statements.filter((text) => /advisory_xact_lock\(hashtextextended|count\(\*\)/.test(text))).toEqual([]);
    } finally {
      query.mockRestore();
    }
  });
});
