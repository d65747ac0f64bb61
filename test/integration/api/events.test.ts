import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storeEvent } from '../../../shared/db/events.ts';
import type { EventType } from '../../../shared/domain/events.ts';
import { newId } from '../../../shared/ids.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = '127.0.0.1:1';

describe('events', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
  });
  afterAll(() => api?.stop());

  const list = async (query = '', of: TestAccount = account) => {
    const { status, body } = await of.call('GET', `/api/v1/events${query}`);
    if (status !== 200) throw new Error(JSON.stringify(body));
    return body;
  };
  const idsOf = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

  /** An event as any part of the service writes it, at a given instant. */
  async function insertAt(accountId: string, at: string, type: EventType, resourceId: string = newId('tx')) {
    const id = newId('evt');
    await api.pool.query(
      `insert into events (id, account_id, type, resource_type, resource_id, data, created_at)
       values ($1, $2, $3, 'transaction', $4, '{"n":1}', $5)`,
      [id, accountId, type, resourceId, at],
    );
    return id;
  }

  it('are told as they are sent, member by member', async () => {
    account = await api.account();
    const agent = await createAgent(account);
    const { data, total } = await list(`?resource_id=${agent.id}`);
    expect(total).toBe(1);
    expect(data[0]).toEqual({
      id: expect.stringMatching(/^evt_/),
      type: 'agent.created',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      api_version: '1.0.0',
      livemode: false,
      data: (await account.call('GET', `/api/v1/agents/${agent.id}`)).body,
    });
    expect((await account.call('GET', `/api/v1/events/${data[0].id}`)).body).toEqual(data[0]);
  });

  it('have the members of their data in the order and the letters in which they were written', async () => {
    const own = await api.account();
    const data = { z: 1, a: '1.50', B: ['é', 'é', '💸', '</script>'], nested: { y: null, x: true } };
    const event = { accountId: own.id, type: 'payment.failed', resourceType: 'transaction' } as const;
    const { id } = await storeEvent(api.pool, { ...event, resourceId: newId('tx'), agentId: null, data });
    const response = await fetch(`${api.url}/api/v1/events/${id}`, { headers: { 'x-api-key': own.key } });
    expect(await response.text()).toContain(`"data":${JSON.stringify(data)}}`);
  });

  it('come newest first, and each on one page only, also when many are of one instant', async () => {
    const own = await api.account();
    const [early, late] = ['2026-03-01T12:00:00.001Z', '2026-03-01T12:00:00.002Z'];
    const first = await Promise.all(Array.from({ length: 25 }, () => insertAt(own.id, early, 'payment.pending')));
    const second = await Promise.all(Array.from({ length: 25 }, () => insertAt(own.id, late, 'payment.completed')));
    const expected = [...second.sort().reverse(), ...first.sort().reverse()];
    for (const size of [7, 100]) {
      const seen: string[] = [];
      for (let page = 1; ; page += 1) {
        const answer = await list(`?page_size=${size}&page_num=${page}`, own);
        expect(answer.total).toBe(50);
        seen.push(...idsOf(answer));
        expect(answer.has_more).toBe(seen.length < 50);
        if (!answer.has_more) break;
      }
      expect(seen).toEqual(expected);
    }
    expect(await list('?page_num=6&page_size=10', own)).toEqual({ data: [], total: 50, has_more: false });
  });

  it('are found by kind, by what they happened to, and by time: from that instant on, and before the other', async () => {
    const own = await api.account();
    const [one, other] = [newId('tx'), newId('tx')];
    const at = (second: number) => `2026-03-01T12:00:0${second}.000Z`;
    const a = await insertAt(own.id, at(1), 'payment.pending', one);
    const b = await insertAt(own.id, at(2), 'payment.pending', other);
    const c = await insertAt(own.id, at(3), 'payment.completed', one);
    for (const [query, expected] of [
      ['', [c, b, a]],
      ['?type=payment.pending', [b, a]],
      ['?type=payment.failed', []],
      [`?resource_id=${one}`, [c, a]],
      [`?resource_id=${one}&type=payment.completed`, [c]],
      [`?resource_id=${newId('tx')}`, []],
      [`?from=${at(2)}`, [c, b]],
      [`?to=${at(2)}`, [a]],
      [`?from=${at(2)}&to=${at(3)}`, [b]],
      ['?from=2026-03-01T14:00:02%2B02:00', [c, b]],
      ['?from=2026-03-01T12:00:02.0001Z', [c, b]],
      [`?type=payment.pending&from=${at(2)}`, [b]],
    ] as const) {
      const answer = await list(query, own);
      expect([query, idsOf(answer), answer.total]).toEqual([query, expected, expected.length]);
    }
  });

  it('of another account are not there', async () => {
    const own = await api.account();
    const resourceId = newId('tx');
    const id = await insertAt(own.id, '2026-03-01T12:00:00Z', 'payment.pending', resourceId);
    const stranger = await api.account();
    const answer = await stranger.call('GET', `/api/v1/events/${id}`);
    const missing = await stranger.call('GET', '/api/v1/events/evt_01kahvd1r0fv2t5c7m4y2q8s3z');
    expect([answer.status, answer.body.code]).toEqual([404, 'resource_not_found']);
    expect(answer.body.message.replace(id, 'X')).toBe(
      missing.body.message.replace('evt_01kahvd1r0fv2t5c7m4y2q8s3z', 'X'),
    );
    for (const query of ['', `?resource_id=${resourceId}`, '?type=payment.pending'])
      expect(await list(query, stranger)).toEqual({ data: [], total: 0, has_more: false });
    for (const path of [`/${id}x`, '/x', '/tx_01kahvd1r0fv2t5c7m4y2q8s3z'])
      expect((await own.call('GET', `/api/v1/events${path}`)).status).toBe(404);
  });
});
