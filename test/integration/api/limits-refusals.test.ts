import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../shared/api-key.ts';
import { type DatabaseClock, installClock } from '../../support/database-clock.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const perMinute = 3;

let api: TestApi;
let clock: DatabaseClock;
let account: TestAccount;
let addresses = 0;

beforeAll(async () => {
  api = await startTestApi({
    temporalAddress: '127.0.0.1:1',
    failedAuthPerMinute: perMinute,
    trustedProxies: ['127.0.0.1/32'],
  });
  clock = await installClock(api);
  account = await api.account();
});
afterAll(async () => {
  await clock?.close();
  await api?.stop();
});

let address: string;
beforeEach(() => {
  addresses += 1;
  address = `203.0.113.${addresses}`;
});

/** Asks by way of a proxy that names the client. */
const ask = (credentials: Record<string, string>, from = address) =>
  callWith(api.url, { ...credentials, 'x-forwarded-for': from })('GET', '/api/v1/agents');
const wrongKey = () => ({ 'x-api-key': makeApiKey({ environment: 'sandbox' }).key });
const refresh = (from = address) =>
  callWith(api.url, { 'x-forwarded-for': from })('POST', '/api/v1/auth/refresh', {
    refresh_token: `purser_refresh_${'A'.repeat(43)}`,
  });

async function statuses(asks: readonly (() => Promise<{ status: number }>)[]): Promise<number[]> {
  const seen: number[] = [];
  for (const each of asks) seen.push((await each()).status);
  return seen;
}

describe('refused credentials', () => {
  it('are 429 once there were too many of them from an address in a minute, until that is true no more', async () => {
    const start = await clock.now();
    expect(await statuses(Array(perMinute).fill(() => ask(wrongKey())))).toEqual([401, 401, 401]);
    await clock.set(new Date(start.getTime() + 20_000));
    const refused = await ask(wrongKey());
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '40']);
    expect(refused.headers.get('www-authenticate')).toBe(null);
    expect(refused.body).toMatchObject({
      code: 'rate_limit_exceeded',
      type: 'rate_limit_error',
      message: 'More than 3 credentials from your address were refused within 60 seconds. Retry after 40 seconds.',
    });
    for (let again = 0; again < 5; again += 1) await ask(wrongKey());
    await clock.set(new Date(start.getTime() + 59_999));
    expect((await ask(wrongKey())).headers.get('retry-after')).toBe('1');
    await clock.set(new Date(start.getTime() + 60_000));
    expect(await statuses(Array(perMinute + 1).fill(() => ask(wrongKey())))).toEqual([401, 401, 401, 429]);
  });

  it('count whatever they are: keys, tokens, both at once, and refresh tokens', async () => {
    expect(
      await statuses([
        () => ask({ 'x-api-key': 'nonsense' }),
        () => ask({ authorization: 'Bearer nonsense' }),
        () => refresh(),
        () => ask({ authorization: 'Basic nonsense' }),
        () => refresh(),
        () => ask({ 'x-api-key': account.key, authorization: 'Bearer nonsense' }),
      ]),
    ).toEqual([401, 401, 401, 429, 429, 429]);
  });

  it('never stand in the way of a good one, and are not counted where none was sent or nothing was refused', async () => {
    const person = await account.person('ann@example.com');
    expect(await statuses(Array(20).fill(() => ask({})))).toEqual(Array(20).fill(401));
    expect(await statuses(Array(5).fill(() => ask({ 'x-api-key': account.key })))).toEqual(Array(5).fill(200));
    expect(await statuses(Array(perMinute + 1).fill(() => ask(wrongKey())))).toEqual([401, 401, 401, 429]);
    expect(
      await statuses([
        () => ask({ 'x-api-key': account.key }),
        () => ask({ authorization: `Bearer ${person.token}` }),
        () => ask({}),
      ]),
    ).toEqual([200, 200, 401]);
  });

  it('are counted for each IPv4 address, and for each /64 of IPv6', async () => {
    const guesses = (...from: string[]) => statuses(from.map((each) => () => ask(wrongKey(), each)));
    expect(await guesses('198.51.100.1', '198.51.100.1', '::ffff:198.51.100.1', '198.51.100.1')).toEqual([
      ...[401, 401, 401, 429],
    ]);
    expect(await guesses('198.51.100.2')).toEqual([401]);
    expect(await guesses('2001:db8::1', '2001:db8::ffff:1', '2001:db8:0:0:1234::', '2001:db8::5')).toEqual([
      ...[401, 401, 401, 429],
    ]);
    expect(await guesses('2001:db8:0:1::1')).toEqual([401]);
  });

  it('go on being noted in the audit log of the account that they are known to be of', async () => {
    const { rows: before } = await api.pool.query(`select id from audit_inbox where action = 'credential.denied'`);
    await api.pool.query(`update api_keys set expires_at = now() where account_id = $1`, [account.id]);
    await statuses(Array(perMinute + 2).fill(() => ask({ 'x-api-key': account.key })));
    const { rows: after } = await api.pool.query(`select id from audit_inbox where action = 'credential.denied'`);
    expect(after.length - before.length).toBe(perMinute + 2);
  });
});
