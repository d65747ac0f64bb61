import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, payment, type TestAccount } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { type ApiWithChain, startApiWithChain } from './with-chain.ts';

/** Policies decide and the chain answers, while the POST waits. */
describe('a POST that is answered by policies or the chain, repeated with its key', () => {
  let world: ApiWithChain;
  let account: TestAccount;
  let calls: ReturnType<typeof createKeyedCalls>;

  beforeAll(async () => {
    world = await startApiWithChain();
    account = await world.api.account();
    calls = createKeyedCalls({ url: world.api.url, account });
  });
  afterAll(() => world?.stop());

  const payments = async (agentId: string) =>
    (await account.call('GET', `/api/v1/transactions?agent_id=${agentId}`)).body.total;

  it('is denied once: a stored denial is told again, also when the policy has gone', async () => {
    const { id } = await createAgent(account);
    const policy = { agent_id: id, type: 'spending_limit', rules: { max_transaction_amount: '5' } };
    const { body } = await account.call('POST', '/api/v1/policies', policy);
    const headers = withKey(newKey());
    const first = await calls.expectReplay('/transactions', payment(id), headers);
    expect([first.status, first.body.code]).toEqual([400, 'policy_violation']);
    await account.call('DELETE', `/api/v1/policies/${body.id}`);
    expect((await calls.post('/transactions', payment(id), headers)).text).toBe(first.text);
    await calls.expectConflict('/transactions', payment(id, { amount: '1' }), headers);
    expect(await payments(id)).toBe(1);
  });

  it('lacks money once', async () => {
    const { id } = await createAgent(account);
    const headers = withKey(newKey());
    const first = await calls.expectReplay('/transactions', payment(id), headers);
    expect([first.status, first.body.code]).toEqual([400, 'insufficient_funds']);
    expect(await payments(id)).toBe(1);
  });

  it('tells what a payment would cost as it was told the first time, and asks anew under another key', async () => {
    const { id } = await createAgent(account);
    const headers = withKey(newKey());
    const simulate = '/transactions/simulate';
    const first = await calls.expectReplay(simulate, payment(id), headers);
    expect([first.status, first.body.decision]).toEqual([200, 'deny']);
    const policy = { agent_id: id, type: 'spending_limit', rules: { max_transaction_amount: '5' } };
    await account.call('POST', '/api/v1/policies', policy);
    expect((await calls.post(simulate, payment(id), headers)).text).toBe(first.text);
    expect((await calls.post(simulate, payment(id), withKey(newKey()))).body.violations).toHaveLength(2);
    await calls.expectConflict(simulate, payment(id, { amount: '1' }), headers);
  });

  it('is told the same when it is asked at once', async () => {
    const { id } = await createAgent(account);
    const headers = withKey(newKey());
    const ask = (amount: string) => calls.post('/transactions/simulate', payment(id, { amount }), headers);
    const answers = await Promise.all(['1', '1', '2', '1', '2', '1', '2', '2'].map(ask));
    const told = answers.filter(({ status }) => status === 200);
    expect(new Set(told.map(({ text }) => text)).size).toBe(1);
    expect(told.filter(({ replayed }) => replayed === null)).toHaveLength(1);
    for (const { status, body } of answers)
      if (status !== 200) expect([status, body.code]).toEqual([409, 'idempotency_key_conflict']);
  });
});
