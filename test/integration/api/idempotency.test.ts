import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimKey, deleteExpiredKeys, findKey } from '../../../shared/db/idempotency-keys.ts';
import { newId } from '../../../shared/ids.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { createKeyedCalls, type KeyedAnswer, newKey, withKey } from './idempotency-calls.ts';
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

describe('a key', () => {
  it('belongs to its account', async () => {
    const other = await api.account();
    const stranger = await createAgent(other);
    const headers = withKey(newKey());
    const [mine, theirs] = [
      await post('/transactions', payment(agent.id), headers),
      await other.call('POST', '/api/v1/transactions', payment(stranger.id), headers),
    ];
    expect([mine.status, theirs.status, theirs.headers.get('idempotent-replayed')]).toEqual([200, 200, null]);
    expect(theirs.body.id).not.toBe(mine.body.id);
  });

  it('belongs to its path, with the id in it', async () => {
    const headers = withKey(newKey());
    const policies = [{ type: 'spending_limit', rules: { monthly_limit: '1000000' } }];
    const ids = [];
    for (const name of ['one', 'other']) ids.push((await post('/policy-templates', { name, policies }, {})).body.id);
    const body = { agent_id: (await createAgent(account)).id, mode: 'append' };
    for (const id of ids)
      expect(await post(`/policy-templates/${id}/apply`, body, headers)).toMatchObject({ status: 200, replayed: null });
    // However the path is written, it is the same one.
    for (const path of [`/policy-templates/${ids[0]}/apply/`, `/policy-templates/${ids[0].replace('_', '%5F')}/apply`])
      expect(await post(path, body, headers)).toMatchObject({ status: 200, replayed: 'true' });
  });

  it('means nothing to other methods', async () => {
    const headers = withKey('x'.repeat(300));
    const { status } = await account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'active' }, headers);
    expect(status).toBe(200);
    expect((await account.call('GET', '/api/v1/agents', undefined, headers)).status).toBe(200);
  });

  it.each<[string, string[], string]>([
    ['two that differ', ['Idempotency-Key', 'a', 'X-Idempotency-Key', 'b'], 'X-Idempotency-Key'],
    ['one twice, with two values', ['Idempotency-Key', 'a', 'Idempotency-Key', 'b'], 'Idempotency-Key'],
    ['an empty one', ['Idempotency-Key', ''], 'Idempotency-Key'],
    ['256 characters', ['Idempotency-Key', 'a'.repeat(256)], 'Idempotency-Key'],
    ['no ASCII', ['Idempotency-Key', 'clé'], 'Idempotency-Key'],
  ])('is refused with 400 on the wire: %s', async (_name, headers, param) => {
    const before = await payments(agent.id);
    const refused = await raw(headers, payment(agent.id));
    expect([refused.status, refused.body.code, refused.body.param]).toEqual([400, 'invalid_request', param]);
    expect(await payments(agent.id)).toBe(before);
  });

  it('is looked at last: after 401, 403, 404 and the body', async () => {
    const headers = { ...withKey(''), authorization: `Bearer ${ann.token}` };
    const { approvalId } = await askPeople(api, account, [{ approvers: ['bob@example.com'] }]);
    expect((await post('/agents', {}, { ...headers, authorization: 'Bearer x' })).status).toBe(401);
    expect((await post(`/approvals/${approvalId}/approve`, {}, headers)).status).toBe(403);
    expect((await post(`/approvals/${newId('apr')}/approve`, {}, headers)).status).toBe(404);
    expect((await post('/agents', { chain: 'eip155:31337' }, headers)).body.param).toBe('agent_name');
    const body = { agent_name: 'last', chain: 'eip155:31337' };
    expect((await post('/agents', body, headers)).body.param).toBe('Idempotency-Key');
  });

  it('has a body with a canonical form, or is refused', async () => {
    const body = JSON.stringify(payment('x')).replace('"x"', '"\\ud800"');
    const refused = await post('/transactions', body, withKey(newKey()));
    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_request']);
  });

  it('is another one after 24 hours, and is deleted then; that of a payment lives as long as it', async () => {
    const policy = { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '1000000' } };
    const attach = () => post('/policies', policy, withKey(short));
    const [short, lasting] = [newKey(), newKey()];
    const first = await attach();
    const paid = await post('/transactions', payment(agent.id), withKey(lasting));
    const { rows } = await api.pool.query(
      `select path, round(extract(epoch from expires_at - created_at) / 3600)::int as hours from idempotency_keys
       where key in ($1, $2) order by path`,
      [short, lasting],
    );
    expect(rows).toEqual([
      { path: '/api/v1/policies', hours: 24 },
      { path: '/api/v1/transactions', hours: null },
    ]);
    const pass = () =>
      api.pool.query(
        `update idempotency_keys set created_at = created_at - interval '10 years',
                expires_at = expires_at - interval '1 day 1 second'`,
      );
    await pass();
    const second = await attach();
    expect([second.status, second.replayed, second.body.id === first.body.id]).toEqual([200, null, false]);
    expect(await attach()).toMatchObject({ replayed: 'true', text: second.text });
    expect(await post('/transactions', payment(agent.id), withKey(lasting))).toMatchObject({ text: paid.text });
    await pass();
    const left = await count('idempotency_keys', 'expires_at is null');
    const expired = await count('idempotency_keys', 'expires_at < now()');
    expect(await deleteExpiredKeys(api.pool, { limit: 2 })).toBe(2);
    expect(await deleteExpiredKeys(api.pool, { limit: 1000 })).toBe(expired - 2);
    expect(await deleteExpiredKeys(api.pool, { limit: 1000 })).toBe(0);
    expect(await count('idempotency_keys', 'true')).toBe(left);
  });
});

describe('a first request that is still at work', () => {
  /** As the first request leaves it when it has stored its payment and not answered yet. */
  async function began(key: string, { leaseMs }: { leaseMs: number }) {
    const { id } = await createAgent(account);
    const scope = { accountId: account.id, method: 'POST', path: '/api/v1/transactions', key };
    const first = await post('/transactions', payment(id), withKey(key));
    const row = (await findKey(api.pool, scope))!;
    await api.pool.query('delete from idempotency_keys where key = $1', [key]);
    const bodyHash = row.body_hash;
    await claimKey(api.pool, { ...scope, bodyHash, resourceId: row.resource_id, leaseMs, lifetimeMs: null });
    return { id, first };
  }

  it('is waited for with 409 and Retry-After; another body is a conflict all the same', async () => {
    const key = newKey();
    const { id } = await began(key, { leaseMs: 60_000 });
    const early = await post('/transactions', payment(id), withKey(key));
    expect([early.status, early.body.code, early.headers.get('retry-after')]).toEqual([
      409,
      'idempotency_key_in_progress',
      '1',
    ]);
    await expectConflict('/transactions', payment(id, { amount: '1' }), withKey(key));
    expect(await payments(id)).toBe(1);
  });

  it('is taken to have died when its lease is over: the answer is made from the payment, once for all', async () => {
    const key = newKey();
    const { id, first } = await began(key, { leaseMs: -1 });
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => post('/transactions', payment(id), withKey(key))),
    );
    expect(new Set(answers.map(({ status, replayed }) => `${status} ${replayed}`))).toEqual(new Set(['200 true']));
    expect(new Set(answers.map((answer) => answer.text)).size).toBe(1);
    expect(answers[0]!.body.id).toBe(first.body.id);
    expect(await payments(id)).toBe(1);
  });

  it('may have been denied before it died: the answer is the denial', async () => {
    const key = newKey();
    const { id, first } = await began(key, { leaseMs: -1 });
    await api.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'policy_violation',
              failure_message = 'Too much.' where id = $1`,
      [first.body.id],
    );
    const replay = await expectReplayOnly('/transactions', payment(id), withKey(key));
    expect([replay.status, replay.body.code, replay.body.details.transaction_id]).toEqual([
      400,
      'policy_violation',
      first.body.id,
    ]);
  });

  async function expectReplayOnly(path: string, body: unknown, headers: Record<string, string>): Promise<KeyedAnswer> {
    const [one, two] = [await post(path, body, headers), await post(path, body, headers)];
    expect([one.replayed, two.replayed, two.text]).toEqual(['true', 'true', one.text]);
    return one;
  }
});

describe('the reference', () => {
  it('has both headers on every POST and on nothing else, and says what they may be answered', async () => {
    const { paths } = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { parameters?: { in: string; name: string }[]; responses: object }>>;
    };
    for (const operations of Object.values(paths))
      for (const [method, { parameters = [], responses }] of Object.entries(operations)) {
        const headers = parameters.filter((each) => each.in === 'header').map(({ name }) => name);
        expect(headers).toEqual(method === 'post' ? ['Idempotency-Key', 'X-Idempotency-Key'] : []);
        if (method !== 'post') continue;
        expect(responses).toMatchObject({
          200: { headers: { 'Idempotent-Replayed': {} } },
          409: {
            headers: { 'Retry-After': {} },
            content: {
              'application/json': { examples: { idempotency_key_conflict: {}, idempotency_key_in_progress: {} } },
            },
          },
        });
      }
  });
});

/** Header lines exactly as given; the client of other tests would join them. */
async function raw(headers: readonly string[], body: unknown) {
  const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
  const sent = Buffer.from(JSON.stringify(body));
  const lines = ['Host', 'localhost', 'X-API-Key', account.key, 'Content-Type', 'application/json'];
  const call = request(`${api.url}/api/v1/transactions`, {
    method: 'POST',
    headers: [...lines, 'Content-Length', String(sent.length), ...headers],
  });
  call.on('response', resolve);
  call.on('error', reject);
  call.end(sent);
  const response = await promise;
  return { status: response.statusCode, body: JSON.parse(await text(response)) };
}
