import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/client.ts';
import { testTokenEnv } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { startCommitCutter } from './commit-cutter.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { endOf, isSignedIn, letPass, type Refresher, refresherAt, rowsOf, startRefreshing } from './refresh-calls.ts';

const nobody = '127.0.0.1:1';
/** Longest time for random interleavings; on a busy machine they are fewer. */
const maxPropertyMs = 20_000;

type Answer = Awaited<ReturnType<ReturnType<typeof refresherAt>>>;

let api: TestApi;
let account: TestAccount;
const processes: ApiProcess[] = [];
let refreshes: ReturnType<typeof refresherAt>[];

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: nobody });
  account = await api.account();
  processes.push(...(await Promise.all([start(), start()])));
  refreshes = processes.map(({ url }) => refresherAt(url));
});
afterAll(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await api?.stop();
});

async function start({ databaseUrl = api.databaseUrl } = {}): Promise<ApiProcess> {
  // Nobody is told to wait here.
  const env = { ...(await testTokenEnv()), PURSER_FAILED_AUTH_PER_MINUTE: '10000' };
  return startApiProcess({ databaseUrl, temporalAddress: nobody, env });
}

const twenty = Array.from({ length: 20 }, (_, i) => i);

describe('the same refresh token twenty times at once at two processes', () => {
  it('has one successor, whoever asks, and an access token for each', async () => {
    const person = await startRefreshing(api, account);
    const answers = await Promise.all(twenty.map((i) => refreshes[i % 2]!(person.refreshToken)));
    expect(answers.map(({ status }) => status)).toEqual(twenty.map(() => 200));
    expect(new Set(answers.map(({ body }) => body.refresh_token)).size).toBe(1);
    expect(new Set(answers.map(({ body }) => body.access_token)).size).toBe(20);
    expect((await rowsOf(api, person)).map(({ is_used }) => is_used)).toEqual([true, false]);
    expect((await refreshes[0]!(answers[0]!.body.refresh_token)).status).toBe(200);
  });

  it('with one Idempotency-Key is answered once', async () => {
    const person = await startRefreshing(api, account);
    const answers = await Promise.all(
      twenty.map((i) => refreshes[i % 2]!(person.refreshToken, { 'idempotency-key': 'at once' })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(19).fill(409)]);
    expect(await rowsOf(api, person)).toHaveLength(2);
  });

  it('is the end of the session when it was used long before, at once on every process', async () => {
    const person = await startRefreshing(api, account);
    const { body } = await refreshes[0]!(person.refreshToken);
    await letPass(api, { ...person, seconds: 31 });
    const answers = await Promise.all(twenty.map((i) => refreshes[i % 2]!(person.refreshToken)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    for (const { url } of processes)
      for (const token of [body.access_token, person.token]) expect(await isSignedIn(url, token)).toBe(false);
    for (const refresh of refreshes) expect((await refresh(body.refresh_token)).status).toBe(401);
    const { rows } = await api.pool.query(
      `select from audit_inbox where resource_id = $1 and action = 'session.revoked'`,
      [person.sessionId],
    );
    expect(rows).toHaveLength(1);
  });

  it('gives nothing that outlives a session which is signed out meanwhile', async () => {
    for (let round = 0; round < 5; round += 1) {
      const person = await startRefreshing(api, account);
      const [signedOut, ...answers] = await Promise.all([
        person.call('POST', '/api/v1/auth/logout'),
        ...twenty.map((i) => refreshes[i % 2]!(person.refreshToken)),
      ]);
      expect(signedOut!.status).toBe(200);
      for (const { status, body } of answers as Answer[]) {
        expect([200, 401]).toContain(status);
        if (status !== 200) continue;
        expect((await refreshes[0]!(body.refresh_token)).status).toBe(401);
        expect(await isSignedIn(processes[1]!.url, body.access_token)).toBe(false);
      }
    }
  });
});

describe('a refresh whose answer is lost', () => {
  it('because its process was killed before it used the token: another process uses it', async () => {
    const person = await startRefreshing(api, account);
    const victim = await start();
    const lock = await api.pool.connect();
    await lock.query('begin');
    await lock.query('select from refresh_tokens where session_id = $1 for update', [person.sessionId]);
    const asked = refresherAt(victim.url)(person.refreshToken).catch(() => 'lost');
    await eventually(waitingForLocks, (count) => count === 1);
    await victim.kill();
    expect(await asked).toBe('lost');
    await lock.query('rollback');
    lock.release();
    expect((await rowsOf(api, person)).map(({ is_used }) => is_used)).toEqual([false]);
    await expectGoesOn(person);
  });

  it('because its process was killed when it had used the token: another one gives the successor that there is', async () => {
    const person = await startRefreshing(api, account);
    const victim = await start();
    const asked = refresherAt(victim.url)(person.refreshToken).catch(() => undefined);
    // Without a pause: it is about to answer.
    while ((await rowsOf(api, person)).length < 2);
    await victim.kill();
    const answered = await asked;
    const successor = await expectGoesOn(person);
    if (answered) expect(answered.body.refresh_token).toBe(successor);
  });

  async function waitingForLocks(): Promise<number> {
    const { rows } = await api.pool.query<{ count: number }>(
      `select count(*)::integer as count from pg_stat_activity
       where datname = current_database() and application_name = 'purser-api' and wait_event_type = 'Lock'`,
    );
    return rows[0]!.count;
  }

  /** @returns the successor */
  async function expectGoesOn(person: Refresher): Promise<string> {
    const repeats = await Promise.all(refreshes.map((refresh) => refresh(person.refreshToken)));
    expect(repeats.map(({ status }) => status)).toEqual([200, 200]);
    const [successor, other] = repeats.map(({ body }) => body.refresh_token as string);
    expect(other).toBe(successor);
    expect(await rowsOf(api, person)).toHaveLength(2);
    expect((await refreshes[0]!(successor!)).status).toBe(200);
    expect(await endOf(api, person)).toBeNull();
    return successor!;
  }

  it('because its connection to the database broke right before or after it was committed', async () => {
    const cutter = await startCommitCutter({ databaseUrl: api.databaseUrl });
    const own = await start({ databaseUrl: cutter.url });
    for (const when of ['before', 'after'] as const) {
      const person = await startRefreshing(api, account);
      cutter.cutNextCommit(when);
      expect((await refresherAt(own.url)(person.refreshToken)).status).toBe(503);
      expect((await rowsOf(api, person)).map(({ is_used }) => is_used)).toEqual(
        when === 'before' ? [false] : [true, false],
      );
      await expectGoesOn(person);
    }
    await own.kill();
    await cutter.stop();
  });
});

describe('whatever the order of refreshes, processes and time', () => {
  /** A token of the chain, by how many it has got before: 0 is the newest. Time passes first. */
  interface Wave {
    readonly seconds: number;
    readonly asked: readonly { readonly back: number; readonly process: number }[];
  }
  const wave = fc.record<Wave>({
    // Whatever is summed up of them is far from 30, for a run takes time as well.
    seconds: fc.constantFrom(0, 0, 12, 45),
    asked: fc.array(fc.record({ back: fc.constantFrom(0, 0, 0, 1, 2), process: fc.nat(1) }), {
      minLength: 1,
      maxLength: 5,
    }),
  });

  /** What a session ought to be: a chain of tokens, all but the last of them used at some time. */
  interface Model {
    readonly tokens: string[];
    /** By token; in seconds. */
    readonly usedAt: number[];
    now: number;
    isOver: boolean;
  }

  /** Sends a wave at once and compares. */
  async function play(person: Refresher, model: Model, { seconds, asked }: Wave): Promise<void> {
    await letPass(api, { ...person, seconds });
    model.now += seconds;
    const last = model.tokens.length - 1;
    const indexes = asked.map(({ back }) => Math.max(last - back, 0));
    const answers = await Promise.all(indexes.map((index, i) => refreshes[asked[i]!.process]!(model.tokens[index]!)));
    const isReused = (index: number) => index < last && model.now - model.usedAt[index]! > 30;
    const ends = !model.isOver && indexes.some(isReused);
    answers.forEach(({ status, body }, i) => {
      const index = indexes[i]!;
      if (model.isOver || isReused(index)) expect(status).toBe(401);
      // What ends the session may come before or after the others of its wave.
      else if (!ends || status === 200) {
        expect(status).toBe(200);
        model.tokens[index + 1] ??= body.refresh_token;
        expect(body.refresh_token).toBe(model.tokens[index + 1]);
      } else expect(status).toBe(401);
    });
    if (model.tokens.length - 1 > last) model.usedAt[last] = model.now;
    model.isOver ||= ends;
  }

  it('each token has one successor, and a session is over exactly when a token was used late', async () => {
    const seen = { runs: 0, ended: 0, tokens: 0 };
    const endMs = performance.now() + maxPropertyMs;
    await fc.assert(
      fc.asyncProperty(fc.array(wave, { minLength: 2, maxLength: 8 }), async (waves) => {
        if (performance.now() > endMs && Math.min(seen.ended, seen.runs - seen.ended) > 0) return;
        const person = await startRefreshing(api, account);
        const startMs = performance.now();
        const model: Model = { tokens: [person.refreshToken], usedAt: [], now: 0, isOver: false };
        for (const each of waves) {
          // Time that really passes may not decide.
          if (performance.now() - startMs > 5_000) break;
          await play(person, model, each);
        }
        expect(await endOf(api, person)).toBe(model.isOver ? 'token_reused' : null);
        const rows = await rowsOf(api, person);
        if (!model.isOver) expect(rows).toHaveLength(model.tokens.length);
        expect(rows.filter(({ is_used }) => !is_used)).toHaveLength(1);
        seen.runs += 1;
        seen.ended += model.isOver ? 1 : 0;
        seen.tokens += rows.length;
      }),
      { numRuns: 100 },
    );
    console.log(`random interleavings: ${seen.runs} sessions of ${seen.tokens} tokens, ${seen.ended} ended by reuse`);
    expect(Math.min(seen.ended, seen.runs - seen.ended)).toBeGreaterThan(0);
  });
});
