import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimKey, deleteExpiredKeys, findKey } from '../../../shared/db/idempotency-keys.ts';
import { newId } from '../../../shared/ids.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { createKeyedCalls, type KeyedAnswer, newKey, withKey } from './idempotency-calls.ts';
import { askPeople } from './questions.ts';

type Calls = ReturnType<typeof createKeyedCalls>;

let api: TestApi;
let account: TestAccount;
let agent: { id: string };
let ann: TestPerson;
let post: Calls['post'];
let expectConflict: Calls['expectConflict'];

/** There is no Temporal here, so that every payment stays pending. */
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1', decisionWaitMs: 50 });
  account = await api.account();
  ({ post, expectConflict } = createKeyedCalls({ url: api.url, account }));
  agent = await createAgent(account);
  ann = await account.person('ann@example.com');
});
afterAll(() => api?.stop());

const count = async (table: string, where: string, ...values: unknown[]) =>
  (await api.pool.query<{ count: number }>(`select count(*)::int as count from ${table} where ${where}`, values))
    .rows[0]!.count;
const payments = (agentId: string) => count('transactions', 'agent_id = $1', agentId);

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
    interface Operation {
      operationId: string;
      parameters?: { in: string; name: string }[];
      responses: Record<string, { headers: object; content: { 'application/json': { examples: object } } }>;
    }
    const { paths } = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, Operation>>;
    };
    for (const operations of Object.values(paths))
      for (const [method, { operationId, parameters = [], responses }] of Object.entries(operations)) {
        const headers = parameters.filter((each) => each.in === 'header').map(({ name }) => name);
        expect(headers).toEqual(method === 'post' ? ['Idempotency-Key', 'X-Idempotency-Key'] : []);
        if (method !== 'post') continue;
        const conflicts = responses[409]!.content['application/json'].examples;
        expect(conflicts).toHaveProperty('idempotency_key_conflict');
        // What answers with a secret answers once: it is never kept, and so never given again.
        const isKept = !['createApiKey', 'exchangeCode', 'refreshTokens'].includes(operationId);
        expect([operationId, 'Idempotent-Replayed' in responses[200]!.headers]).toEqual([operationId, isKept]);
        expect([operationId, 'idempotency_key_in_progress' in conflicts]).toEqual([operationId, isKept]);
        expect([operationId, 'Retry-After' in responses[409]!.headers]).toEqual([operationId, isKept]);
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
