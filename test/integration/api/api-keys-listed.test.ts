import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../../shared/ids.ts';
import { callWith, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const path = '/api/v1/api-keys';
const unknownId = 'key_01kahvd1r0fv2t5c7m4y2q8s3z';

let api: TestApi;
let account: TestAccount;
let owner: TestPerson;
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
  account = await api.account();
  owner = await account.person('ann@example.com');
});
afterAll(() => api?.stop());

async function make(body: Record<string, unknown>, by = owner) {
  const answer = await by.call('POST', path, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}
const using = (key: string) => callWith(api.url, { 'x-api-key': key });
const statusWith = async (key: string) => (await using(key)('GET', '/api/v1/agents')).status;
const rowOf = async (id: string) => (await api.pool.query('select * from api_keys where id = $1', [id])).rows[0];

describe('the list of API keys', () => {
  it('has every key, newest first, and never the key itself', async () => {
    const other = await api.account();
    const person = await other.person('bob@example.com');
    const made = [await make({ name: 'one' }, person), await make({ name: 'two' }, person)];
    const { body } = await person.call('GET', path);
    const shown = ({ key: _secret, ...rest }: Record<string, unknown>) => ({ ...rest, warning: null });
    expect(body.data.slice(0, 2)).toEqual([shown(made[1]), shown(made[0])]);
    expect(body).toMatchObject({ total: 3, has_more: false });
    for (const entry of body.data) expect(Object.keys(entry)).not.toContain('key');
    for (const { key } of [...made, other]) expect(JSON.stringify(body)).not.toContain(key);
    const page = await person.call('GET', `${path}?page_num=2&page_size=1`);
    expect(page.body).toEqual({ data: [shown(made[0])], total: 3, has_more: true });
  });

  it('warns of a key that is more than 90 days old, and says what to do', async () => {
    const { id } = await make({ name: 'old one' });
    const warningAt = async (days: number) => {
      await api.pool.query(`update api_keys set created_at = now() - $2 * interval '1 day' where id = $1`, [id, days]);
      const { body } = await owner.call('GET', `${path}?page_size=100`);
      return body.data.find((each: { id: string }) => each.id === id).warning;
    };
    expect([await warningAt(0), await warningAt(90)]).toEqual([null, null]);
    expect(await warningAt(91)).toMatch(
      /"old one" is 91 days old.*every 90 days.*[Mm]ake a new one, deploy it.*delete this/,
    );
  });

  it('tells the last use, to the minute', async () => {
    const { id, key } = await make({ name: 'used' });
    const usedAt = async () => (await rowOf(id)).last_used_at as Date | null;
    await statusWith(key);
    const first = await usedAt();
    expect(first).not.toBeNull();
    await statusWith(key);
    expect(await usedAt()).toEqual(first);
    await api.pool.query(`update api_keys set last_used_at = now() - interval '61 seconds' where id = $1`, [id]);
    await Promise.all([1, 2, 3, 4].map(() => statusWith(key)));
    expect((await usedAt())!.getTime()).toBeGreaterThanOrEqual(first!.getTime());
    const { body } = await owner.call('GET', `${path}?page_size=100`);
    const shown = body.data.find((each: { id: string }) => each.id === id);
    expect(shown.last_used_at).toBe((await usedAt())!.toISOString());
  });
});

describe('deleting an API key', () => {
  it('has it refused, and is 404 a second time', async () => {
    const { id, key } = await make({ name: 'gone' });
    const answer = await owner.call('DELETE', `${path}/${id}`);
    expect([answer.status, answer.body]).toEqual([200, { id, deleted: true }]);
    const refused = await using(key)('GET', '/api/v1/agents');
    expect([refused.status, refused.body.code]).toEqual([401, 'authentication_failed']);
    expect((await owner.call('DELETE', `${path}/${id}`)).status).toBe(404);
  });

  it('is done once by those who do it at once', async () => {
    const { id } = await make({ name: 'gone at once' });
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => owner.call('DELETE', `${path}/${id}`)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404, 404, 404, 404]);
    const { rowCount } = await api.pool.query(
      `select from audit_inbox where action = 'api_key.deleted' and resource_id = $1`,
      [id],
    );
    expect(rowCount).toBe(1);
  });

  it("does not find another account's, nor what is no key", async () => {
    const stranger = await (await api.account()).person('eve@example.com');
    const { id, key } = await make({ name: 'mine' });
    for (const named of [id, unknownId, 'x', newId('agent')])
      expect((await stranger.call('DELETE', `${path}/${named}`)).status).toBe(404);
    expect(await statusWith(key)).toBe(200);
  });
});
