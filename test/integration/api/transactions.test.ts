import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failTransaction, storeDecision } from '../../../shared/db/transactions.ts';
import { formatAmount } from '../../../shared/domain/money.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, payment, recipient, startTestApi, type TestAccount, type TestApi } from './harness.ts';

describe('transactions', () => {
  let temporal: OwnTemporal;
  let api: TestApi;
  let account: TestAccount;
  let agent: { id: string; address: string };

  beforeAll(async () => {
    temporal = await startOwnTemporal();
    api = await startTestApi({ temporalAddress: temporal.address });
    account = await api.account();
    agent = await createAgent(account);
  });
  afterAll(async () => {
    await api?.stop();
    await temporal?.stop();
  });

  it('stores a payment and answers pending when nobody decides in time', async () => {
    const { status, body } = await account.call(
      'POST',
      '/api/v1/transactions',
      payment(agent.id, { amount: '12.50', token: 'usdc', memo: 'Invoice\n1042' }),
    );
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^tx_/),
      hash: null,
      agent_id: agent.id,
      direction: 'outbound',
      type: 'transfer',
      from_address: agent.address,
      to_address: recipient,
      amount: '12.5',
      token: 'USDC',
      chain: 'eip155:31337',
      fee: null,
      status: 'pending',
      status_detail: 'created',
      failure_code: null,
      failure_message: null,
      memo: 'Invoice\n1042',
      nonce: null,
      block_number: null,
      confirmations: 0,
      approval: null,
      notice: null,
      attempts: [],
      warnings: [],
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    expect((await account.call('GET', `/api/v1/transactions/${body.id}`)).body).toEqual(body);
  });

  it('starts the workflow under the id of the payment', async () => {
    const { body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    const { Client, Connection } = await import('@temporalio/client');
    const connection = await Connection.connect({ address: temporal.address });
    const described = await new Client({ connection }).workflow.getHandle(body.id).describe();
    expect(described.type).toBe('transaction');
    expect(await described.staticSummary()).toBe(`12.5 USDC on eip155:31337 to ${recipient}`);
    await connection.close();
  });

  it('takes a recipient in lower and in upper case, and a sender written in any case', async () => {
    const variants = [recipient.toLowerCase(), `0x${recipient.slice(2).toUpperCase()}`];
    for (const to_address of variants) {
      const more = { to_address, from_address: agent.address.toLowerCase() };
      const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id, more));
      expect([status, body.to_address, body.from_address]).toEqual([200, recipient, agent.address]);
    }
  });

  it('lets an EVM agent pay on another enabled EVM chain from the same address', async () => {
    const more = { chain: 'eip155:84532', token: 'ETH' };
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id, more));
    expect([status, body.chain, body.from_address]).toEqual([200, 'eip155:84532', agent.address]);
  });

  it('keeps every amount exactly, to the last of 18 digits (F7)', async () => {
    const amounts = fc.bigInt({ min: 1n, max: 10n ** 30n });
    await fc.assert(
      fc.asyncProperty(amounts, async (minor) => {
        const amount = formatAmount(minor, 18);
        const sent = await account.call('POST', '/api/v1/transactions', payment(agent.id, { amount, token: 'ETH' }));
        expect([sent.status, sent.body.amount]).toEqual([200, amount]);
      }),
      { numRuns: 10 },
    );
  });

  it('refuses an inactive agent and stores nothing', async () => {
    const idle = await createAgent(account);
    await api.pool.query("update agents set status = 'inactive' where id = $1", [idle.id]);
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(idle.id));
    expect([status, body.code, body.param]).toEqual([400, 'agent_inactive', 'agent_id']);
    expect((await account.call('GET', `/api/v1/transactions?agent_id=${idle.id}`)).body.total).toBe(0);
  });

  it('shows a denied payment as failed, with the decision that was stored', async () => {
    const { body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    const denied = {
      policy_id: 'pol_x',
      policy_type: 'spending_limit',
      rule: 'max_transaction_amount',
      limit: '1',
      attempted: '12.5',
      used: null,
      remaining: null,
      token: 'USDC',
      resets_at: null,
    };
    const decision = { outcome: 'deny' as const, violations: [denied], approvals: [], warnings: [] };
    await storeDecision(api.pool, { id: body.id, decisionId: 'dec_x', decision });
    await failTransaction(api.pool, { id: body.id, code: 'policy_violation', message: 'Too much.' });
    const read = await account.call('GET', `/api/v1/transactions/${body.id}`);
    expect(read.body).toMatchObject({ status: 'failed', status_detail: 'failed', failure_code: 'policy_violation' });
  });

  it('filters by agent and status, and refuses an agent of another account', async () => {
    const mine = await createAgent(account);
    const sent = await account.call('POST', '/api/v1/transactions', payment(mine.id));
    const list = async (query: string) => account.call('GET', `/api/v1/transactions?${query}`);
    expect((await list(`agent_id=${mine.id}&status=pending`)).body).toEqual({
      data: [sent.body],
      total: 1,
      has_more: false,
    });
    expect((await list(`agent_id=${mine.id}&status=confirmed`)).body.total).toBe(0);
    const stranger = await createAgent(await api.account());
    for (const id of [stranger.id, 'agent_00000000000000000000000000', 'nobody', '']) {
      const answer = await list(`agent_id=${id}`);
      expect([answer.status, answer.body.param]).toEqual([400, 'agent_id']);
    }
  });

  it('hides payments of other accounts', async () => {
    const { body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    const other = await api.account();
    expect((await other.call('GET', `/api/v1/transactions/${body.id}`)).status).toBe(404);
    expect((await other.call('GET', '/api/v1/transactions')).body.total).toBe(0);
  });
});
