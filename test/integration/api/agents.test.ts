import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, startTestApi, type TestApi } from './harness.ts';

describe('agents', () => {
  let temporal: OwnTemporal;
  let api: TestApi;

  beforeAll(async () => {
    temporal = await startOwnTemporal();
    api = await startTestApi({ temporalAddress: temporal.address });
  });
  afterAll(async () => {
    await api?.stop();
    await temporal?.stop();
  });

  it('creates an agent with a wallet of its own and reads it back', async () => {
    const account = await api.account();
    const created = await account.call('POST', '/api/v1/agents', {
      agent_name: 'Cafe\u0301',
      chain: 'eip155:31337',
      agent_description: 'line one\nline two\ttabbed',
      metadata: '{ "team" : "ops" }',
    });
    expect(created.status).toBe(200);
    expect(created.body).toEqual({
      id: expect.stringMatching(/^agent_/),
      agent_name: 'Caf\u00e9',
      agent_description: 'line one\nline two\ttabbed',
      wallet: { address: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/), chain: 'eip155:31337' },
      status: 'active',
      frozen: false,
      freeze: null,
      metadata: '{ "team" : "ops" }',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    expect((await account.call('GET', `/api/v1/agents/${created.body.id}`)).body).toEqual(created.body);
  });

  it('gives each of many agents made at once an address of its own', async () => {
    const account = await api.account();
    const agents = await Promise.all(Array.from({ length: 12 }, () => createAgent(account)));
    expect(new Set(agents.map((agent) => agent.address)).size).toBe(12);
  });

  it('lets one of two agents with one name win, also when both ask at once, and uses up nothing for the other', async () => {
    const account = await api.account();
    const body = { agent_name: 'twin', chain: 'eip155:31337' };
    const answers = await Promise.all([1, 2, 3].map(() => account.call('POST', '/api/v1/agents', body)));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 400, 400]);
    expect(answers.find((answer) => answer.status === 400)?.body).toMatchObject({
      code: 'invalid_request',
      param: 'agent_name',
    });
    const { rows } = await api.pool.query('select next_index from account_keys where account_id = $1', [account.id]);
    expect(rows[0].next_index).toBe(1);
    const { rows: events } = await api.pool.query('select type, data from events where account_id = $1', [account.id]);
    expect(events).toEqual([{ type: 'agent.created', data: answers.find(({ status }) => status === 200)?.body }]);
  });

  it('F39 tells of an agent once, however often it is asked for with one key', async () => {
    const account = await api.account();
    const body = { agent_name: 'asked for often', chain: 'eip155:31337' };
    const ask = () => account.call('POST', '/api/v1/agents', body, { 'idempotency-key': 'once' });
    await Promise.all([ask(), ask(), ask()]);
    const { body: agent } = await ask();
    const { rows } = await api.pool.query('select type, resource_id, data from events where account_id = $1', [
      account.id,
    ]);
    expect(rows).toEqual([{ type: 'agent.created', resource_id: agent.id, data: agent }]);
  });

  it('allows the same name in another account, and in another case', async () => {
    const [one, other] = [await api.account(), await api.account()];
    await createAgent(one, { agent_name: 'same' });
    await createAgent(other, { agent_name: 'same' });
    await createAgent(one, { agent_name: 'Same' });
  });

  it('answers 503 with Retry-After and stores nothing while the key cannot be made', async () => {
    const account = await api.account({ withKey: false });
    const answer = await account.call('POST', '/api/v1/agents', { agent_name: 'early', chain: 'eip155:31337' });
    expect(answer.status).toBe(503);
    expect(answer.body.code).toBe('service_unavailable');
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect((await account.call('GET', '/api/v1/agents')).body).toEqual({ data: [], total: 0, has_more: false });
  });

  it('hides agents of other accounts', async () => {
    const [one, other] = [await api.account(), await api.account()];
    const agent = await createAgent(one);
    const answer = await other.call('GET', `/api/v1/agents/${agent.id}`);
    expect(answer.status).toBe(404);
    expect(answer.body).toMatchObject({ code: 'resource_not_found', type: 'not_found_error' });
    expect((await other.call('GET', '/api/v1/agents')).body.total).toBe(0);
  });

  it('pages newest first without overlap, also among agents of one instant', async () => {
    const account = await api.account();
    for (let count = 0; count < 7; count += 1) await createAgent(account);
    await api.pool.query('update agents set created_at = now() where account_id = $1', [account.id]);
    const pages = await Promise.all(
      [1, 2, 3, 4].map((page) => account.call('GET', `/api/v1/agents?page_num=${page}&page_size=3`)),
    );
    expect(pages.map((page) => [page.body.data.length, page.body.total, page.body.has_more])).toEqual([
      [3, 7, true],
      [3, 7, true],
      [1, 7, false],
      [0, 7, false],
    ]);
    const ids = pages.flatMap((page) => page.body.data.map((agent: { id: string }) => agent.id));
    expect(ids).toEqual([...ids].sort().reverse());
    expect(new Set(ids).size).toBe(7);
  });

  it('filters by status and chain', async () => {
    const account = await api.account();
    const local = await createAgent(account);
    const base = await createAgent(account, { chain: 'eip155:84532' });
    await api.pool.query("update agents set status = 'inactive' where id = $1", [base.id]);
    const ids = async (query: string) =>
      (await account.call('GET', `/api/v1/agents?${query}`)).body.data.map((agent: { id: string }) => agent.id);
    expect(await ids('status=active')).toEqual([local.id]);
    expect(await ids('status=inactive')).toEqual([base.id]);
    expect(await ids('chain=eip155:84532')).toEqual([base.id]);
    expect(await ids('chain=eip155:84532&status=active')).toEqual([]);
  });
});
