import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const path = '/api/v1/account';
const chain = 'eip155:31337';

let api: TestApi;
let account: TestAccount;
let owner: TestPerson;
let agentId: string;
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
});
afterAll(() => api?.stop());
beforeEach(async () => {
  account = await api.account({ plan: 'growth' });
  owner = await account.person('ann@example.com');
  agentId = (await createAgent(account)).id;
});

const topUp = (more: Record<string, unknown> = {}) => ({ chain, funding_agent_id: agentId, amount: '0.002', ...more });
const set = (gas_top_ups: unknown) => owner.call('PUT', path, { gas_top_ups });

describe('who fills wallets up with coins for fees', () => {
  it('is set as a whole list, shown, taken away, and each change is in the audit log', async () => {
    const wanted = [topUp({ max_per_day: 10 })];
    const first = await set([topUp({ amount: '0.0020' })]);
    expect(first).toMatchObject({ status: 200, body: { gas_top_ups: wanted } });
    expect((await account.call('GET', path)).body.gas_top_ups).toEqual(wanted);
    expect((await owner.call('PUT', path, { name: 'other' })).body.gas_top_ups).toEqual(wanted);
    expect((await set([])).body.gas_top_ups).toEqual([]);
    const { rows } = await api.pool.query(
      `select changes->'before'->'gas_top_ups' as before, changes->'after'->'gas_top_ups' as after
       from audit_inbox where account_id = $1 and action = 'account.updated' order by created_at, id`,
      [account.id],
    );
    expect(rows).toEqual([
      { before: [], after: wanted },
      { before: wanted, after: wanted },
      { before: wanted, after: [] },
    ]);
  });

  it('is set by people who administer the account, and by no key', async () => {
    const viewer = await account.person('vic@example.com', { role: 'viewer' });
    const body = { gas_top_ups: [topUp()] };
    expect((await viewer.call('PUT', path, body)).status).toBe(403);
    expect((await account.call('PUT', path, body)).status).toBe(403);
    expect((await account.call('GET', path)).body.gas_top_ups).toEqual([]);
  });

  it.each([
    [() => ({}), 'gas_top_ups', 'invalid_request', /must be an array/],
    [() => [topUp({ chain: 'eip155:9' })], 'gas_top_ups.0.chain', 'invalid_chain', /not served here/],
    [() => [topUp(), topUp()], 'gas_top_ups', 'invalid_request', /each chain once/],
    [() => [topUp({ amount: '0' })], 'gas_top_ups.0.amount', 'invalid_amount', /more than zero/],
    [() => [topUp({ amount: '-1' })], 'gas_top_ups.0.amount', 'invalid_amount', /plain decimal/],
    [() => [topUp({ amount: `0.${'0'.repeat(18)}1` })], 'gas_top_ups.0.amount', 'invalid_amount', /fraction digits/],
    [() => [topUp({ amount: 1 })], 'gas_top_ups.0.amount', 'invalid_request', /string/],
    [
      () => [topUp({ max_per_day: 0 })],
      'gas_top_ups.0.max_per_day',
      'invalid_request',
      /max_per_day must be a whole number from 1 to 1000\.$/,
    ],
    [
      () => [topUp({ max_per_day: 1_001 })],
      'gas_top_ups.0.max_per_day',
      'invalid_request',
      /max_per_day must be a whole number from 1 to 1000\.$/,
    ],
    [
      () => [topUp({ funding_agent_id: 'me' })],
      'gas_top_ups.0.funding_agent_id',
      'invalid_request',
      /no agent of this/,
    ],
    [() => [topUp({ more: 1 })], 'gas_top_ups.0.more', 'invalid_request', /not known here/],
    [
      () => Array.from({ length: 21 }, (_, index) => topUp({ chain: `eip155:${index}` })),
      'gas_top_ups',
      'invalid_request',
      /at most 20/,
    ],
  ] as const)('%# is refused, naming what is wrong', async (given, param, code, message) => {
    const { status, body } = await set(given());
    expect({ status, ...body }).toMatchObject({
      status: 400,
      code,
      param,
      message: expect.stringMatching(message),
    });
    expect((await account.call('GET', path)).body.gas_top_ups).toEqual([]);
  });

  it('is no agent of another account', async () => {
    const stranger = await createAgent(await api.account());
    const { status, body } = await set([topUp({ funding_agent_id: stranger.id })]);
    expect(status).toBe(400);
    expect(body).toMatchObject({ param: 'gas_top_ups.0.funding_agent_id' });
  });
});
