import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const limit = { type: 'spending_limit', rules: { daily_limit: '5' } };
const loose = { daily_limit: '5000000' };
let names = 0;
const template = () => {
  names += 1;
  return { name: `template ${names}`, policies: [limit] };
};

describe('an account in which only people write policies (policy_writes: bearer)', () => {
  let api: TestApi;
  let account: TestAccount;
  let owner: TestPerson;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
    owner = await account.person('ann@example.com');
    await setTo('bearer');
  });
  afterAll(() => api?.stop());

  async function setTo(policy_writes: 'any' | 'bearer') {
    expect((await owner.call('PUT', '/api/v1/account', { policy_writes })).status).toBe(200);
  }
  async function made(path: string, body: unknown): Promise<string> {
    const answer = await owner.call('POST', path, body);
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    return answer.body.id;
  }

  /** Every write of policies and templates, on things of their own. */
  async function writes() {
    const agent = await createAgent(account);
    const policy = () => made('/api/v1/policies', { agent_id: agent.id, ...limit });
    const kept = () => made('/api/v1/policy-templates', template());
    return [
      ['POST', '/api/v1/policies', { agent_id: agent.id, ...limit }],
      ['PUT', `/api/v1/policies/${await policy()}`, { rules: loose }],
      ['DELETE', `/api/v1/policies/${await policy()}`, undefined],
      ['POST', '/api/v1/policy-templates', template()],
      ['PUT', `/api/v1/policy-templates/${await kept()}`, template()],
      ['DELETE', `/api/v1/policy-templates/${await kept()}`, undefined],
      ['POST', `/api/v1/policy-templates/${await kept()}/apply`, { agent_id: agent.id, mode: 'replace' }],
    ] as const;
  }
  const policiesOf = async (id: string) =>
    (await account.call('GET', `/api/v1/policies?page_size=100&agent_id=${id}`)).body.data;

  it('refuses every such write by a key, whatever the key may, and changes nothing', async () => {
    const { body: narrow } = await owner.call('POST', '/api/v1/api-keys', { name: 'n', scopes: ['policies:write'] });
    const all = await writes();
    const agentId = (all[0][2] as { agent_id: string }).agent_id;
    const before = await policiesOf(agentId);
    for (const [method, path, body] of all)
      for (const key of [account.key, narrow.key]) {
        const answer = await account.call(method, path, body, { 'x-api-key': key });
        expect([method, path, answer.status, answer.body.code]).toEqual([
          method,
          path,
          403,
          'insufficient_permissions',
        ]);
        expect(answer.body.message).toMatch(/only people who are signed in.*policy_writes/);
      }
    expect(await policiesOf(agentId)).toEqual(before);
  });

  it('takes them from people, also from one who sends a key besides', async () => {
    for (const headers of [{}, { 'x-api-key': account.key }] as Record<string, string>[])
      for (const [method, path, body] of await writes()) {
        const answer = await owner.call(method, path, body, headers);
        expect([method, path, answer.status]).toEqual([method, path, 200]);
      }
  });

  it('lets keys read them, pay and make agents as before', async () => {
    const agent = await createAgent(account);
    for (const path of ['/api/v1/policies', '/api/v1/policy-templates', `/api/v1/agents/${agent.id}`])
      expect((await account.call('GET', path)).status).toBe(200);
  });

  it('is loosened by people only, and then takes them from keys again', async () => {
    const loosened = { policy_writes: 'any' };
    expect((await account.call('PUT', '/api/v1/account', loosened)).status).toBe(403);
    await setTo('any');
    for (const [method, path, body] of await writes())
      expect([path, (await account.call(method, path, body)).status]).toEqual([path, 200]);
  });
});
