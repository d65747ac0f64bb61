import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { askPeople } from './questions.ts';

type Calls = ReturnType<typeof createKeyedCalls>;

let temporal: OwnTemporal;
let api: TestApi;
let account: TestAccount;
let agent: { id: string };
let ann: TestPerson;
let post: Calls['post'];
let expectReplay: Calls['expectReplay'];
let expectConflict: Calls['expectConflict'];

/** Nobody decides payments here: every one stays pending. */
beforeAll(async () => {
  temporal = await startOwnTemporal();
  api = await startTestApi({ temporalAddress: temporal.address, decisionWaitMs: 50 });
  account = await api.account();
  ({ post, expectReplay, expectConflict } = createKeyedCalls({ url: api.url, account }));
  agent = await createAgent(account);
  ann = await account.person('ann@example.com');
});
afterAll(async () => {
  await api?.stop();
  await temporal?.stop();
});

const count = async (table: string, where: string, ...values: unknown[]) =>
  (await api.pool.query<{ count: number }>(`select count(*)::int as count from ${table} where ${where}`, values))
    .rows[0]!.count;
const payments = (agentId: string) => count('transactions', 'agent_id = $1', agentId);

describe('a POST that is repeated with its key', () => {
  it('pays once, and keeps its first answer when the payment has gone on (F18)', async () => {
    const { id } = await createAgent(account);
    const headers = withKey(newKey());
    const first = await expectReplay('/transactions', payment(id), headers);
    expect([first.status, first.body.status]).toEqual([200, 'pending']);
    await api.pool.query("update transactions set status_detail = 'signing' where id = $1", [first.body.id]);
    expect((await post('/transactions', payment(id), headers)).text).toBe(first.text);
    expect((await account.call('GET', `/api/v1/transactions/${first.body.id}`)).body.status_detail).toBe('signing');
    expect(await payments(id)).toBe(1);
    await expectConflict('/transactions', payment(id, { amount: '12.6' }), headers);
    expect(await payments(id)).toBe(1);
  });

  it('is the same one however its body is written', async () => {
    const { id } = await createAgent(account);
    const headers = withKey(newKey());
    const first = await post('/transactions', payment(id), headers);
    const turned = Object.fromEntries(Object.entries({ ...payment(id), memo: null }).reverse());
    const second = await post('/transactions', JSON.stringify(turned, null, 2), headers);
    expect([second.status, second.replayed, second.text]).toEqual([200, 'true', first.text]);
    // What is said otherwise is another body, also where it would mean the same.
    await expectConflict('/transactions', payment(id, { amount: '12.50' }), headers);
  });

  it('is the same one by the other header', async () => {
    const { id } = await createAgent(account);
    const key = newKey();
    const first = await post('/transactions', payment(id), withKey(key));
    for (const headers of [{ 'x-idempotency-key': key }, { 'x-idempotency-key': key, ...withKey(key) }])
      expect(await post('/transactions', payment(id), headers)).toMatchObject({ replayed: 'true', text: first.text });
    expect(await payments(id)).toBe(1);
  });

  it('is refused anew when nothing was stored, and carried out once that is mended', async () => {
    const { id } = await createAgent(account);
    await account.call('PUT', `/api/v1/agents/${id}/status`, { status: 'inactive' });
    const headers = withKey(newKey());
    for (const wrong of [payment(id, { amount: '0' }), payment(id, { token: 'WETH' }), payment(id)]) {
      const refused = await post('/transactions', wrong, headers);
      expect([refused.status, refused.replayed]).toEqual([400, null]);
    }
    await account.call('PUT', `/api/v1/agents/${id}/status`, { status: 'active' });
    const paid = await post('/transactions', payment(id), headers);
    expect([paid.status, paid.replayed]).toEqual([200, null]);
    await account.call('PUT', `/api/v1/agents/${id}/status`, { status: 'inactive' });
    expect(await post('/transactions', payment(id), headers)).toMatchObject({ replayed: 'true', text: paid.text });
  });

  it('makes one agent', async () => {
    const body = { agent_name: 'made once', chain: 'eip155:31337' };
    const headers = withKey(newKey());
    const first = await expectReplay('/agents', body, headers);
    expect(first.status).toBe(200);
    await expectConflict('/agents', { ...body, agent_name: 'made twice' }, headers);
    expect(await count('agents', `account_id = $1 and agent_name like 'made %'`, account.id)).toBe(1);
    // Without the key the name is taken, and that refusal is not kept under a new one.
    const taken = await post('/agents', body, withKey(newKey()));
    expect([taken.status, taken.body.param]).toEqual([400, 'agent_name']);
  });

  it('makes one agent, and takes one address, of twenty requests at once', async () => {
    const other = await api.account();
    const body = { agent_name: 'one of twenty', chain: 'eip155:31337' };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => other.call('POST', '/api/v1/agents', body, withKey('one'))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    const { rows } = await api.pool.query('select next_index from account_keys where account_id = $1', [other.id]);
    expect(rows).toEqual([{ next_index: 1 }]);
  });

  it('attaches one policy', async () => {
    const body = { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '1000000' } };
    const headers = withKey(newKey());
    expect((await expectReplay('/policies', body, headers)).status).toBe(200);
    await expectConflict('/policies', { ...body, rules: { daily_limit: '2000000' } }, headers);
    expect(await count('policies', 'agent_id = $1', agent.id)).toBe(1);
  });

  it('makes one template and applies it once', async () => {
    const policies = [{ type: 'spending_limit', rules: { monthly_limit: '1000000' } }];
    const headers = withKey(newKey());
    const made = await expectReplay('/policy-templates', { name: 'once', policies }, headers);
    await expectConflict('/policy-templates', { name: 'twice', policies }, headers);
    const { id } = await createAgent(account);
    const path = `/policy-templates/${made.body.id}/apply`;
    const applied = await expectReplay(path, { agent_id: id, mode: 'append' }, headers);
    expect(applied.body.data).toHaveLength(1);
    await expectConflict(path, { agent_id: id, mode: 'replace' }, headers);
    expect(await count('policies', 'agent_id = $1', id)).toBe(1);
  });

  it('is not kept when its database transaction was given up: too many policies', async () => {
    const { id } = await createAgent(account);
    const rules = { max_transaction_amount: '1000000' };
    const policies = Array.from({ length: 20 }, () => ({ type: 'spending_limit', rules }));
    const { body: full } = await account.call('POST', '/api/v1/policy-templates', { name: 'full', policies });
    await account.call('POST', `/api/v1/policy-templates/${full.id}/apply`, { agent_id: id, mode: 'append' });
    const headers = withKey(newKey());
    const one = { agent_id: id, type: 'spending_limit', rules };
    for (let round = 0; round < 2; round += 1) {
      const refused = await post('/policies', one, headers);
      expect([refused.status, refused.replayed]).toEqual([403, null]);
    }
    const { body } = await account.call('GET', `/api/v1/policies?agent_id=${id}`);
    await account.call('DELETE', `/api/v1/policies/${body.data[0].id}`);
    expect(await post('/policies', one, headers)).toMatchObject({ status: 200, replayed: null });
  });

  it.each(['approve', 'reject'])('decides once: %s, by the question and by the payment', async (verb) => {
    for (const by of ['approvals', 'transactions'] as const) {
      const asked = await askPeople(api, account, [{ approvers: ['ann@example.com', 'bob@example.com'] }]);
      const path = `/${by}/${by === 'approvals' ? asked.approvalId : asked.transactionId}/${verb}`;
      const headers = { ...withKey(newKey()), authorization: `Bearer ${ann.token}` };
      const first = await expectReplay(path, undefined, headers);
      expect([first.status, first.body.decisions.length]).toEqual([200, 1]);
      // An empty object, and a note that is null, say the same as no body.
      for (const same of [{}, { note: null }])
        expect(await post(path, same, headers)).toMatchObject({ replayed: 'true', text: first.text });
      await expectConflict(path, { note: 'changed my mind' }, headers);
      const again = await post(path, undefined, { ...headers, ...withKey(newKey()) });
      expect([again.status, again.body.code]).toEqual([409, 'approval_already_decided']);
    }
  });

  it('is no answer of somebody else: a key does not decide for the next approver', async () => {
    const people = ['ann@example.com', 'bob@example.com'];
    const { approvalId } = await askPeople(api, account, [{ approvers: people, required: 2 }]);
    const bob = await account.person('bob@example.com');
    const path = `/approvals/${approvalId}/approve`;
    expect((await post(path, {}, { ...withKey('same'), authorization: `Bearer ${ann.token}` })).status).toBe(200);
    await expectConflict(path, {}, { ...withKey('same'), authorization: `Bearer ${bob.token}` });
    const second = await post(path, {}, { ...withKey('bobs own'), authorization: `Bearer ${bob.token}` });
    expect([second.status, second.body.status]).toEqual([200, 'approved']);
  });
});
