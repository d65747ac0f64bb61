import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashExchangeCode, newExchangeCode } from '../../../api/tokens/exchange-code.ts';
import { insertExchangeCode } from '../../../shared/db/exchange-codes.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { startRefreshing } from './refresh-calls.ts';

const path = '/api/v1/agents';
const inside = '203.0.113.9';
const outside = '198.51.100.4';

describe('the networks from which an account may be used', () => {
  let api: TestApi;
  let account: TestAccount;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1', trustedProxies: ['127.0.0.1'] });
  });
  afterAll(() => api?.stop());
  beforeEach(async () => {
    account = await api.account();
  });

  const setAllowlist = (networks: string[], { id } = account) =>
    api.pool.query('update accounts set ip_allowlist = $2 where id = $1', [id, networks]);
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const get = (address: string, by: Pick<TestAccount, 'call'> = account) =>
    by.call('GET', path, undefined, from(address));

  it('are all while none is named', async () => {
    for (const address of [inside, outside, '2001:db8::1', 'garbage']) expect((await get(address)).status).toBe(200);
  });

  it('shut out other addresses, with a key and with a token, and say which address was seen', async () => {
    const person = await account.person('ann@example.com');
    await setAllowlist(['203.0.113.0/24', '2001:db8:7::/48']);
    for (const by of [account, person]) {
      expect((await get(inside, by)).status).toBe(200);
      expect((await get('::ffff:203.0.113.200', by)).status).toBe(200);
      expect((await get('2001:db8:7::1', by)).status).toBe(200);
      for (const address of [outside, '2001:db8:8::1', '::ffff:198.51.100.4']) {
        const { status, body } = await get(address, by);
        expect([status, body.code, body.type]).toEqual([403, 'insufficient_permissions', 'authorization_error']);
        expect(body.message).toContain(address.replace('::ffff:', ''));
        expect(body.message).toContain('ip_allowlist');
      }
    }
    const both = callWith(api.url, { 'x-api-key': account.key, authorization: `Bearer ${person.token}` });
    expect((await get(outside, { call: both })).status).toBe(403);
  });

  it('shut out from every path, before it is told what is there, and change nothing', async () => {
    await setAllowlist(['203.0.113.0/24']);
    for (const [method, url] of [
      ['GET', '/api/v1/agents/agt_00000000000000000000000000'],
      ['GET', '/api/v1/nothing'],
      ['DELETE', path],
      ['POST', '/api/v1/transactions'],
    ] as const)
      expect((await account.call(method, url, undefined, from(outside))).status).toBe(403);
    const made = await account.call('POST', path, { agent_name: 'a', chain: 'eip155:31337' }, from(outside));
    expect(made.status).toBe(403);
    expect((await get(inside)).body.data).toEqual([]);
  });

  it('are those of the account that asks, and count from the next request', async () => {
    const other = await api.account();
    await setAllowlist(['203.0.113.0/24']);
    expect((await get(outside)).status).toBe(403);
    expect((await get(outside, other)).status).toBe(200);
    await setAllowlist(['198.51.100.4/32']);
    expect((await get(outside)).status).toBe(200);
    expect((await get(inside)).status).toBe(403);
  });

  it('do not tell whether a credential that is refused was of an account that names some', async () => {
    await setAllowlist(['203.0.113.0/24']);
    const { status, body } = await callWith(api.url, { 'x-api-key': `${account.key}x` })(
      'GET',
      path,
      undefined,
      from(outside),
    );
    expect([status, body.code]).toEqual([401, 'authentication_failed']);
  });

  it('give no tokens outside either, and use nothing up there', async () => {
    const { userId, refreshToken } = await startRefreshing(api, account);
    const code = newExchangeCode();
    const ofCode = { hash: hashExchangeCode(code), accountId: account.id, userId, lifetimeSeconds: 60 };
    await insertExchangeCode(api.pool, ofCode);
    await setAllowlist(['203.0.113.0/24']);
    const anybody = callWith(api.url, {});
    const exchange = (address: string) =>
      anybody('POST', '/api/v1/auth/exchange', { exchange_code: code }, from(address));
    const refresh = (address: string) =>
      anybody('POST', '/api/v1/auth/refresh', { refresh_token: refreshToken }, from(address));
    for (const ask of [exchange, refresh]) {
      const refused = await ask(outside);
      expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_permissions']);
      expect(refused.body.message).toContain(outside);
      expect((await ask(inside)).status).toBe(200);
    }
    const { rows } = await api.pool.query(
      `select action, actor_id, ip_address, metadata ->> 'reason' as reason
       from audit_inbox where account_id = $1 and result = 'denied'`,
      [account.id],
    );
    const entry = { action: 'permission.denied', actor_id: userId, ip_address: outside, reason: 'address_not_allowed' };
    expect(rows).toEqual([entry, entry]);
  });

  it('are not those that the client makes up', async () => {
    await setAllowlist(['203.0.113.0/24']);
    for (const chain of [`${inside}, ${outside}`, `${inside}, unknown`, `${inside}, 198.51.100.4:80`])
      expect((await get(chain)).status).toBe(403);
  });

  it('leave a word in the audit log of whom they shut out', async () => {
    const person = await account.person('ann@example.com');
    await setAllowlist(['203.0.113.0/24']);
    await get(outside);
    await get(outside, person);
    const { rows } = await api.pool.query(
      `select action, actor_type, result, ip_address, metadata ->> 'reason' as reason
       from audit_inbox where account_id = $1 and result = 'denied' order by created_at, id`,
      [account.id],
    );
    const entry = {
      ...{ action: 'permission.denied', result: 'denied' },
      ...{ ip_address: outside, reason: 'address_not_allowed' },
    };
    expect(rows).toEqual([
      { ...entry, actor_type: 'api_key' },
      { ...entry, actor_type: 'user' },
    ]);
  });
});
