import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testTokenEnv } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { callWith, startTestApi, type TestApi, type TestPerson } from './harness.ts';

const path = '/api/v1/account/members';
const noTemporal = '127.0.0.1:1';
const rounds = 10;

describe('two processes of the api', () => {
  let api: TestApi;
  const processes: ApiProcess[] = [];
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: noTemporal });
    const env = await testTokenEnv();
    const start = () => startApiProcess({ databaseUrl: api.databaseUrl, temporalAddress: noTemporal, env });
    processes.push(...(await Promise.all([start(), start()])));
  });
  afterAll(async () => {
    await Promise.all(processes.map((each) => each.kill()));
    await api?.stop();
  });

  const at = (index: number, { token }: TestPerson) =>
    callWith(processes[index]!.url, { authorization: `Bearer ${token}` });

  it.each(['PUT', 'DELETE'])('leave one of two owners who unmake each other by %s at once', async (method) => {
    for (let round = 0; round < rounds; round += 1) {
      const account = await api.account();
      const [one, two] = [await account.person('one@example.com'), await account.person('two@example.com')];
      const { body: list } = await one.call('GET', path);
      const [twoId, oneId] = list.data.map(({ id }: { id: string }) => id) as [string, string];
      const role = method === 'PUT' ? { role: 'viewer' } : undefined;
      const answers = await Promise.all([
        at(0, one)(method, `${path}/${twoId}`, role),
        at(1, two)(method, `${path}/${oneId}`, role),
      ]);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      const { rows } = await api.pool.query(
        `select count(*)::int as owners from members where account_id = $1 and role = 'owner'`,
        [account.id],
      );
      expect(rows).toEqual([{ owners: 1 }]);
    }
  });

  it('let nobody in whom the other has removed, from the very next request on', async () => {
    const account = await api.account();
    const [ann, bob] = [await account.person('ann@example.com'), await account.person('bob@example.com')];
    const { body: list } = await ann.call('GET', path);
    const bobId = list.data.find(({ email }: { email: string }) => email === 'bob@example.com').id;
    expect((await at(1, bob)('GET', path)).status).toBe(200);
    expect((await at(0, ann)('DELETE', `${path}/${bobId}`)).status).toBe(200);
    expect((await at(1, bob)('GET', path)).status).toBe(401);
  });
});
