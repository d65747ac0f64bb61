import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { eventually } from '../../support/client.ts';
import { type DatabaseClock, installClock } from '../../support/database-clock.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = '127.0.0.1:1';
const noon = Date.parse('2026-03-01T12:00:00.000Z');

let api: TestApi;
let clock: DatabaseClock;
const sockets = new Set<Socket>();

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: nobody });
  clock = await installClock(api);
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const socket of sockets) socket.destroy();
  await clock.set(new Date(noon));
});
afterAll(async () => {
  await clock?.close();
  await api?.stop();
});

interface OwnLimits {
  perMinute?: number;
  perDay?: number;
  concurrent?: number;
}

/** An enterprise account with limits of its own. */
async function limited({ perMinute, perDay, concurrent }: OwnLimits): Promise<TestAccount> {
  const account = await api.account();
  await api.pool.query(
    'update accounts set requests_per_minute = $2, requests_per_day = $3, concurrent_requests = $4 where id = $1',
    [account.id, perMinute ?? null, perDay ?? null, concurrent ?? null],
  );
  return account;
}

const list = (account: Pick<TestAccount, 'call'>) => account.call('GET', '/api/v1/agents');

/** The headers of an answer, in the order limit, remaining, reset, policy. */
const headersOf = ({ headers }: { headers: Headers }) =>
  ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'ratelimit-policy'].map((name) => headers.get(name));

/** Sends a request whose body never comes to its end. */
async function beginRequest(account: TestAccount): Promise<Socket> {
  const { hostname, port } = new URL(api.url);
  const socket = connect(Number(port), hostname);
  sockets.add(socket);
  socket.on('error', () => {});
  socket.write(
    `POST /api/v1/agents HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${account.key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
  );
  return socket;
}

async function leasesOf(account: TestAccount): Promise<number> {
  const { rows } = await api.pool.query<{ count: number }>(
    `select count(*)::int as count from request_leases l join request_windows w on w.id = l.window_id
     join api_keys k on k.id = w.subject where k.account_id = $1 and l.expires_at > clock_timestamp()`,
    [account.id],
  );
  return rows[0]!.count;
}

describe('limits of requests', () => {
  it('say with every answer what is left of the one that is nearest to its end', async () => {
    await clock.set(new Date(noon));
    const account = await api.account({ plan: 'starter' });
    const policy = '60;w=60, 10000;w=86400';
    expect(headersOf(await list(account))).toEqual(['60', '59', '60', policy]);
    await clock.advance(10_000);
    expect(headersOf(await list(account))).toEqual(['60', '58', '50', policy]);
    const answers = [
      await account.call('GET', '/api/v1/agents/agent_x'),
      await account.call('POST', '/api/v1/agents', { nonsense: true }),
      await account.call('GET', '/api/v1/nowhere'),
      await account.call('POST', '/api/v1/api-keys', {}),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 400, 404, 403]);
    expect(answers.map(headersOf)).toEqual(['57', '56', '55', '54'].map((left) => ['60', left, '50', policy]));

    const daily = await limited({ perMinute: 100, perDay: 3 });
    expect(headersOf(await list(daily))).toEqual(['3', '2', '43190', '100;w=60, 3;w=86400']);
    expect(headersOf(await list(await limited({ perDay: 3 })))).toEqual(['3', '2', '43190', '3;w=86400']);
    expect(headersOf(await list(await limited({ perMinute: 3 })))).toEqual(['3', '2', '60', '3;w=60']);
  });

  it('refuse what is beyond a minute’s until the oldest request is a minute old, and say when that is', async () => {
    await clock.set(new Date(noon));
    const account = await limited({ perMinute: 3 });
    await list(account);
    await clock.advance(12_345);
    await list(account);
    await list(account);
    const refused = await list(account);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '48']);
    expect(headersOf(refused)).toEqual(['3', '0', '48', '3;w=60']);
    expect(refused.body).toMatchObject({
      code: 'rate_limit_exceeded',
      type: 'rate_limit_error',
      message: expect.stringMatching(
        /^API key key_\w+ may make 3 requests in any 60 seconds .* Retry after 48 seconds\.$/,
      ),
    });
    await clock.advance(47_000);
    expect((await list(account)).headers.get('retry-after')).toBe('1');
    await clock.advance(1_000);
    expect((await list(account)).status).toBe(200);
    expect((await list(account)).headers.get('retry-after')).toBe('12');
  });

  it('refuse what is beyond a day’s until midnight of UTC', async () => {
    await clock.set(new Date('2026-03-01T23:59:58.500Z'));
    const account = await limited({ perDay: 2, perMinute: 50 });
    await list(account);
    await list(account);
    const refused = await list(account);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '2']);
    expect(headersOf(refused)).toEqual(['2', '0', '2', '50;w=60, 2;w=86400']);
    expect(refused.body.message).toMatch(/may make 2 requests on a day of UTC .* Retry after 2 seconds\.$/);
    await clock.advance(2_000);
    expect(headersOf(await list(account))).toEqual(['2', '1', '86400', '50;w=60, 2;w=86400']);
  });

  it('are of each key, and of each person of an account whatever key they send besides', async () => {
    const account = await limited({ perMinute: 2 });
    const { key } = await createApiKey(api.pool, { accountId: account.id, name: 'other', environment: 'sandbox' });
    const other = { call: callWith(api.url, { 'x-api-key': key }) };
    const [ann, bob] = [await account.person('ann@example.com'), await account.person('bob@example.com')];
    const statuses = async (who: Pick<TestAccount, 'call'>) => {
      const answers = [await list(who), await list(who), await list(who)];
      return answers.map(({ status }) => status);
    };
    const both = { call: callWith(api.url, { 'x-api-key': account.key, authorization: `Bearer ${ann.token}` }) };
    for (const each of [account, other, bob]) expect(await statuses(each)).toEqual([200, 200, 429]);
    await list(both);
    expect(await statuses(ann)).toEqual([200, 429, 429]);
    const again = await account.person('ann@example.com');
    expect((await list(again)).body.message).toMatch(/^You may make 2 requests/);
  });

  it('hold for a person in each of their accounts by itself', async () => {
    const [one, two] = [await limited({ perMinute: 1 }), await limited({ perMinute: 1 })];
    const [here, there] = [await one.person('eve@example.com'), await two.person('eve@example.com')];
    expect(here.userId).toBe(there.userId);
    expect([(await list(here)).status, (await list(here)).status, (await list(there)).status]).toEqual([200, 429, 200]);
  });

  it('refuse what is more at once than may be, until an answer is complete or its client has gone', async () => {
    const account = await limited({ concurrent: 2 });
    const [first, second] = [await beginRequest(account), await beginRequest(account)];
    await eventually(
      () => leasesOf(account),
      (count) => count === 2,
    );
    const refused = await list(account);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect(refused.body.message).toMatch(/may make 2 requests at once .* Retry after 1 second\.$/);
    expect(headersOf(refused)).toEqual([null, null, null, null]);
    first.destroy();
    await eventually(
      () => list(account),
      ({ status }) => status === 200,
    );
    second.write(' '.repeat(999));
    await eventually(
      () => leasesOf(account),
      (count) => count === 0,
    );
  });

  it('never refuse a client that sends the next request when it has an answer', async () => {
    const account = await limited({ concurrent: 3 });
    const lane = async () => {
      const seen: number[] = [];
      while (seen.length < 60) seen.push((await list(account)).status);
      return seen;
    };
    expect(new Set((await Promise.all([lane(), lane(), lane()])).flat())).toEqual(new Set([200]));
  });

  it('give the place of an export back when it ends', async () => {
    const account = await limited({ concurrent: 1 });
    for (let again = 0; again < 20; again += 1) {
      const answer = await fetch(`${api.url}/api/v1/audit-logs/export`, { headers: { 'x-api-key': account.key } });
      expect([answer.status, await answer.text()]).toEqual([200, '']);
    }
  });

  it('free the place of a client that has gone while it was being taken', async () => {
    const account = await limited({ concurrent: 1 });
    const query = api.pool.query.bind(api.pool);
    const [asked, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    vi.spyOn(api.pool, 'query').mockImplementation((async (text: string, values: unknown[]) => {
      if (/admit_request/.test(text)) {
        asked.resolve();
        await gone.promise;
      }
      return query(text, values);
    }) as never);
    const { hostname, port } = new URL(api.url);
    const socket = connect(Number(port), hostname);
    // An export ends without a word when nobody is there.
    socket.write(`GET /api/v1/audit-logs/export HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${account.key}\r\n\r\n`);
    await asked.promise;
    socket.destroy();
    // Once these are answered, the server has seen the end of the connection.
    for (let again = 0; again < 3; again += 1) await fetch(`${api.url}/healthz`);
    gone.resolve();
    vi.restoreAllMocks();
    await eventually(
      () => list(account),
      ({ status }) => status === 200,
    );
  });

  it('answer as ever where a lease cannot be given back', async () => {
    const account = await limited({ concurrent: 2 });
    const query = api.pool.query.bind(api.pool);
    vi.spyOn(api.pool, 'query').mockImplementation(((text: string, values: unknown[]) =>
      /update request_leases/.test(text) ? Promise.reject(new Error('cut')) : query(text, values)) as never);
    expect((await list(account)).status).toBe(200);
    expect(await leasesOf(account)).toBe(1);
    await clock.advance(20_000);
    expect(await leasesOf(account)).toBe(0);
  });

  it('of nobody whom nothing limits: no header, no statement, no row', async () => {
    const account = await api.account({ plan: 'enterprise' });
    const query = vi.spyOn(api.pool, 'query');
    const answers = await Promise.all(Array.from({ length: 30 }, () => list(account)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(headersOf(answers[0]!)).toEqual([null, null, null, null]);
    const statements = query.mock.calls.map(([text]) => String(text));
    expect(statements.length).toBeGreaterThan(30);
    expect(statements.filter((text) => /request_|admit/.test(text))).toEqual([]);
    const { rowCount } = await api.pool.query(
      'select from request_windows w join api_keys k on k.id = w.subject where k.account_id = $1',
      [account.id],
    );
    expect(rowCount).toBe(0);
  });

  it('change with the plan from the next request on, whatever has passed before', async () => {
    const account = await api.account({ plan: 'growth' });
    for (let count = 0; count < 70; count += 1) await list(account);
    await api.pool.query(`update accounts set plan = 'starter' where id = $1`, [account.id]);
    expect((await list(account)).status).toBe(429);
    await api.pool.query(`update accounts set plan = 'growth' where id = $1`, [account.id]);
    expect(headersOf(await list(account)).slice(0, 2)).toEqual(['300', '229']);
    await api.pool.query(`update accounts set plan = 'enterprise' where id = $1`, [account.id]);
    expect(headersOf(await list(account))).toEqual([null, null, null, null]);
  });

  it('are in the reference, with every header that an answer has', async () => {
    const account = await limited({ perMinute: 1, concurrent: 9 });
    const document = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { responses: Record<string, { headers: Record<string, unknown> }> }>>;
    };
    const { responses } = document.paths['/api/v1/agents']!.get!;
    for (const { status, headers } of [await list(account), await list(account)]) {
      const names = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'RateLimit-Policy'];
      const all = status === 429 ? [...names, 'Retry-After'] : names;
      expect(all.filter((name) => headers.has(name))).toEqual(all);
      expect(Object.keys(responses[status]!.headers)).toEqual(expect.arrayContaining(all));
    }
    expect(Object.keys(document.paths['/api/v1/auth/refresh']!.post!.responses['429']!.headers)).toEqual([
      ...['X-Request-Id', 'Retry-After'],
    ]);
  });
});
