import { connect, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../shared/api-key.ts';
import { eventually } from '../../support/client.ts';
import { type DatabaseClock, installClock } from '../../support/database-clock.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = '127.0.0.1:1';
const minuteMs = 60_000;
const longestHammerMs = 200_000;
/** For a machine on which much else is going on. */
const longestTestMs = 300_000;

/** Its database is what the processes share. */
let api: TestApi;
let owner: pg.Client;
let clock: DatabaseClock;
let processes: ApiProcess[];
const sockets = new Set<Socket>();

const start = () =>
  startApiProcess({
    databaseUrl: api.databaseUrl,
    temporalAddress: nobody,
    env: { PURSER_FAILED_AUTH_PER_MINUTE: '7' },
  });

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: nobody });
  clock = await installClock(api);
  owner = new pg.Client({ connectionString: api.ownerUrl });
  await owner.connect();
  processes = await Promise.all([start(), start(), start()]);
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await clock.set(await clock.now());
});
afterAll(async () => {
  await Promise.all(processes?.map((each) => each.kill()) ?? []);
  await clock?.close();
  await owner?.end();
  await api?.stop();
});

const callsOf = (credentials: Record<string, string>) => processes.map(({ url }) => callWith(url, credentials));
const byKey = ({ key }: TestAccount) => ({ 'x-api-key': key });

type Statuses = ReadonlyMap<number, number>;

/** Asks every process, in some lanes each, until enough was answered. @returns how many got which status */
async function hammer(
  account: TestAccount,
  { lanes, isEnough }: { lanes: number; isEnough: (seen: Statuses) => boolean },
): Promise<Statuses> {
  const statuses = new Map<number, number>();
  const endMs = performance.now() + longestHammerMs;
  const lane = async (call: TestAccount['call']) => {
    while (!isEnough(statuses) && performance.now() < endMs) {
      const { status } = await call('GET', '/api/v1/agents?page_size=1');
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(callsOf(byKey(account)).flatMap((call) => Array.from({ length: lanes }, () => lane(call))));
  return statuses;
}

/** Has the database note by itself when each request has passed. */
async function watchPasses(): Promise<() => Promise<number[]>> {
  await owner.query(`
    create table clocks.passes (at timestamptz not null);
    create function clocks.note_pass() returns trigger language plpgsql security definer as
      $$ begin insert into clocks.passes values (new.at); return null; end $$;
    create trigger note_pass after insert or update on request_slots for each row execute function clocks.note_pass()`);
  return async () => {
    await owner.query('drop trigger note_pass on request_slots');
    const { rows } = await owner.query<{ ms: number }>(
      'select extract(epoch from at)::float8 * 1000 as ms from clocks.passes order by at',
    );
    return rows.map(({ ms }) => ms);
  };
}

/** Sends a request to a process whose body never comes to its end. */
function beginRequest(process: ApiProcess, account: TestAccount): void {
  const { hostname, port } = new URL(process.url);
  const socket = connect(Number(port), hostname);
  sockets.add(socket);
  socket.on('error', () => {});
  socket.write(
    `POST /api/v1/agents HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${account.key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
  );
}

describe('limits over three processes', () => {
  it('let 300 requests of a key pass in any 60 seconds, as many as that and no more', {
    timeout: longestTestMs,
  }, async () => {
    const account = await api.account({ plan: 'growth' });
    // Six seconds a second, so that a window lasts ten.
    await clock.set(new Date('2026-03-01T12:00:00.000Z'), 6);
    const passes = await watchPasses();
    // Three windows are used up, and many more than could pass had to be refused.
    const isEnough = (seen: Statuses) => (seen.get(200) ?? 0) >= 900 && (seen.get(429) ?? 0) >= 300;
    const statuses = await hammer(account, { lanes: 5, isEnough });
    const times = await passes();
    expect([...statuses.keys()].toSorted()).toEqual([200, 429]);
    expect(times.length).toBe(statuses.get(200));
    expect(isEnough(statuses)).toBe(true);
    const apart = times.slice(300).map((at, index) => at - times[index]!);
    expect(Math.min(...apart)).toBeGreaterThanOrEqual(minuteMs);
    // A place that is free is taken at once, so that no window has fewer for long.
    expect(apart.toSorted((a, b) => a - b)[Math.floor(apart.length / 4)]).toBeLessThan(minuteMs + 20_000);
  });

  it('let a day’s requests pass and no more, however many ask at once', async () => {
    const account = await api.account({ plan: 'enterprise' });
    await api.pool.query('update accounts set requests_per_day = 50 where id = $1', [account.id]);
    const calls = callsOf(byKey(account));
    const statuses = await Promise.all(
      Array.from({ length: 120 }, async (_, index) => (await calls[index % 3]!('GET', '/api/v1/agents')).status),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(50);
    expect(statuses.filter((status) => status === 429)).toHaveLength(70);
  });

  it('never refuse a client that keeps to what it may have under way at once', async () => {
    const account = await api.account({ plan: 'enterprise' });
    await api.pool.query('update accounts set concurrent_requests = 6 where id = $1', [account.id]);
    const statuses = await hammer(account, { lanes: 2, isEnough: (seen) => (seen.get(200) ?? 0) >= 300 });
    expect([...statuses.keys()]).toEqual([200]);
  });

  it('keep places of requests under way for as long as those last, and free them soon after a kill -9', {
    timeout: longestTestMs,
  }, async () => {
    const account = await api.account({ plan: 'starter' });
    const [first, second] = processes as [ApiProcess, ApiProcess];
    const ask = () => callWith(second.url, byKey(account))('GET', '/api/v1/agents');
    // A lease of 20 seconds lives for ten; it is renewed every five.
    const began = new Date('2026-03-02T12:00:00.000Z');
    await clock.set(began, 2);
    for (let count = 0; count < 5; count += 1) beginRequest(first, account);
    const taken = 'select from request_leases where expires_at > clocks.clock_timestamp()';
    await eventually(
      () => owner.query(taken),
      ({ rowCount }) => rowCount === 5,
    );
    const refusals: (string | null)[] = [];
    await eventually(
      async () => {
        const { status, headers } = await ask();
        refusals.push(status === 429 ? headers.get('retry-after') : `passed with ${status}`);
        return clock.now();
      },
      (now) => now.getTime() - began.getTime() > 32_000,
      { timeoutMs: 40_000 },
    );
    expect(new Set(refusals)).toEqual(new Set(['1']));

    await first.kill();
    const killed = await clock.now();
    // One that is given back ends at -infinity.
    const lasting = `select max(expires_at) as ends from request_leases where expires_at > '-infinity'`;
    const { rows } = await owner.query<{ ends: Date }>(lasting);
    const { ends } = rows[0]!;
    expect(ends.getTime() - killed.getTime()).toBeLessThanOrEqual(20_000);
    await eventually(clock.now, (now) => now > ends);
    expect((await ask()).status).toBe(200);
    processes[0] = await start();
  });

  it('count refused credentials of an address together, and never stand in the way of a good one', async () => {
    const account = await api.account();
    const guess = () => ({ 'x-api-key': makeApiKey({ environment: 'sandbox' }).key });
    const ask = async (index: number, credentials: Record<string, string>) =>
      callWith(processes[index % 3]!.url, credentials)('GET', '/api/v1/agents');
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => ask(index, guess())));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(7);
    expect(statuses.filter((status) => status === 429)).toHaveLength(33);
    const refused = answers.find(({ status }) => status === 429)!;
    expect(refused.headers.get('retry-after')).toBe('60');
    expect((await ask(0, byKey(account))).status).toBe(200);
    expect((await ask(1, {})).status).toBe(401);
    await clock.advance(minuteMs);
    expect((await ask(2, guess())).status).toBe(401);
  });

  it.each([
    ['agents', 10, (index: number) => ({ agent_name: `agent ${index}`, chain: 'eip155:31337' })],
    [
      'webhooks',
      10,
      (index: number) => ({ url: `https://hooks.example.org/${index}`, secret: 'whsec_0123456789abcdefghij' }),
    ],
  ] as const)('count %s that are made at once on all of them: %i on the starter plan', async (kind, limit, body) => {
    const account = await api.account({ plan: 'starter' });
    const made = await Promise.all([0, 1].map((index) => account.call('POST', `/api/v1/${kind}`, body(index))));
    expect(made.map(({ status }) => status)).toEqual([200, 200]);
    const calls = callsOf(byKey(account));
    const answers = [];
    // Five at once, as many as the plan allows.
    for (let round = 0; round < 5; round += 1)
      answers.push(
        ...(await Promise.all(
          Array.from({ length: 5 }, (_, index) =>
            calls[(round + index) % 3]!('POST', `/api/v1/${kind}`, body(10 + round * 5 + index)),
          ),
        )),
      );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(limit - 2);
    expect(statuses.filter((status) => status === 403)).toHaveLength(25 - (limit - 2));
    expect((await account.call('GET', `/api/v1/${kind}`)).body.total).toBe(limit);
  });
});
