import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool } from '../../../shared/db/pool.ts';
import { eventually } from '../../support/client.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { testTokenEnv } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { startCommitCutter } from './commit-cutter.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, type KeyedAnswer, newKey, withKey } from './idempotency-calls.ts';
import { askPeople, tracesOf } from './questions.ts';

/** Nobody decides payments here, so that each POST is at work for so long. */
const decisionWaitMs = 80;
/** Longest time for random interleavings; on a busy machine they are fewer. */
const maxPropertyMs = 10_000;

let temporal: OwnTemporal;
let api: TestApi;
let account: TestAccount;
let agent: { id: string };
const processes: ApiProcess[] = [];
/** Of the two processes. */
let posts: ReturnType<typeof createKeyedCalls>['post'][];

beforeAll(async () => {
  temporal = await startOwnTemporal();
  api = await startTestApi({ temporalAddress: temporal.address });
  account = await api.account();
  agent = await createAgent(account);
  processes.push(...(await Promise.all([start(decisionWaitMs), start(decisionWaitMs)])));
  posts = processes.map(({ url }) => createKeyedCalls({ url, account }).post);
});
afterAll(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await api?.stop();
  await temporal?.stop();
});

async function start(waitMs: number, { databaseUrl = api.databaseUrl } = {}): Promise<ApiProcess> {
  const env = { PURSER_DECISION_WAIT_MS: String(waitMs), ...(await testTokenEnv()) };
  return startApiProcess({ databaseUrl, temporalAddress: temporal.address, env });
}

const twenty = Array.from({ length: 20 }, (_, i) => i);

/** Payments with this memo: which of them there are, and whether each belongs to a key. */
async function paymentsOf(memo: string) {
  const { rows } = await api.pool.query<{ id: string; key: string | null }>(
    `select t.id, k.key from transactions t left join idempotency_keys k on k.resource_id = t.id where t.memo = $1`,
    [memo],
  );
  return rows;
}

/** Has every request that is still at work be taken for dead. */
const endLeases = () =>
  api.pool.query('update idempotency_keys set lease_until = now() where status is null and lease_until > now()');

const isAtWork = ({ status, body }: KeyedAnswer) => status === 409 && body.code === 'idempotency_key_in_progress';

describe('the same key twenty times at once at two processes of the api', () => {
  it('pays once; all others wait or get the same answer (F18)', async () => {
    const key = newKey();
    const body = payment(agent.id, { memo: key });
    const answers = await Promise.all(twenty.map((i) => posts[i % 2]!('/transactions', body, withKey(key))));
    const paid = answers.filter(({ status }) => status === 200);
    expect(paid.filter(({ replayed }) => replayed === null)).toHaveLength(1);
    for (const answer of answers)
      if (answer.status !== 200) expect([isAtWork(answer), answer.headers.get('retry-after')]).toEqual([true, '1']);
    for (const post of posts)
      expect(await post('/transactions', body, withKey(key))).toMatchObject({ replayed: 'true' });
    expect(new Set(paid.map(({ text }) => text)).size).toBe(1);
    expect(await paymentsOf(key)).toEqual([{ id: paid[0]!.body.id, key }]);
  });

  it('takes one of two bodies, and is a conflict for the other', async () => {
    const key = newKey();
    const body = (i: number) => payment(agent.id, { memo: key, amount: i % 4 < 2 ? '1' : '2' });
    const answers = await Promise.all(twenty.map((i) => posts[i % 2]!('/transactions', body(i), withKey(key))));
    const amounts = new Set(answers.filter(({ status }) => status === 200).map((answer) => answer.body.amount));
    expect(amounts.size).toBe(1);
    answers.forEach(({ body: { code } }, i) => {
      const isOther = !amounts.has(body(i).amount);
      expect(code === 'idempotency_key_conflict').toBe(isOther);
    });
    expect(await paymentsOf(key)).toHaveLength(1);
  });

  it('decides once, and everybody is told so', async () => {
    const asked = await askPeople(api, account, [{ approvers: ['ann@example.com', 'bob@example.com'], required: 2 }]);
    const { token } = await account.person('ann@example.com');
    const headers = { ...withKey(newKey()), authorization: `Bearer ${token}` };
    const path = `/approvals/${asked.approvalId}/approve`;
    const answers = await Promise.all(twenty.map((i) => posts[i % 2]!(path, undefined, headers)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect([answers[0]!.status, answers[0]!.body.decisions.length]).toEqual([200, 1]);
    const { approval, audits } = await tracesOf(api, asked);
    expect([approval.status, approval.decisions.length, audits.length]).toEqual(['pending', 1, 1]);
  });
});

describe('a process that is killed between storing a payment and answering', () => {
  it('has its answer given by another one, after its lease: one payment (F18)', async () => {
    // Long enough to be seen at work on a busy machine too.
    const waitMs = 30_000;
    const leaseMs = waitMs + 5_000;
    const victim = await start(waitMs);
    const key = newKey();
    const body = payment(agent.id, { memo: key });
    const lost = createKeyedCalls({ url: victim.url, account })
      .post('/transactions', body, withKey(key))
      .then(
        () => 'answered',
        () => 'lost',
      );
    const [stored] = await eventually(
      () => paymentsOf(key),
      (rows) => rows.length === 1,
    );
    await victim.kill();
    expect(await lost).toBe('lost');
    const [post] = posts as [(typeof posts)[number]];
    expect(isAtWork(await post('/transactions', body, withKey(key)))).toBe(true);
    const other = await post('/transactions', { ...body, amount: '1' }, withKey(key));
    expect(other.body.code).toBe('idempotency_key_conflict');
    const lease = 'extract(epoch from lease_until - created_at)::float8 * 1000';
    const { rows } = await api.pool.query(`select ${lease} as ms from idempotency_keys where key = $1`, [key]);
    expect(rows).toEqual([{ ms: leaseMs }]);
    await endLeases();
    const answer = await post('/transactions', body, withKey(key));
    expect([answer.status, answer.replayed, answer.body.id]).toEqual([200, 'true', stored!.id]);
    expect(await posts[1]!('/transactions', body, withKey(key))).toMatchObject({ replayed: 'true', text: answer.text });
    expect(await paymentsOf(key)).toEqual([stored]);
  });
});

describe('connections to the database that break while keys are used', () => {
  it('right before or after a payment is committed: the first try finds out', async () => {
    const cutter = await startCommitCutter({ databaseUrl: api.databaseUrl });
    const own = await start(decisionWaitMs, { databaseUrl: cutter.url });
    const { post } = createKeyedCalls({ url: own.url, account });
    for (const when of ['before', 'after'] as const) {
      const key = newKey();
      const body = payment(agent.id, { memo: key });
      cutter.cutNextCommit(when);
      const first = await post('/transactions', body, withKey(key));
      expect([when, first.status, first.replayed]).toEqual([when, 200, null]);
      const again = await posts[0]!('/transactions', body, withKey(key));
      expect(again).toMatchObject({ replayed: 'true', text: first.text });
      expect(await paymentsOf(key)).toEqual([{ id: first.body.id, key }]);
    }
    await own.kill();
    await cutter.stop();
  });

  it('leave one payment for each key, and one answer', async () => {
    const memo = newKey();
    const keys = Array.from({ length: 12 }, (_, i) => `${memo} ${i}`);
    const pay = (key: string, process: number) =>
      posts[process]!('/transactions', payment(agent.id, { memo }), withKey(key));
    const breaker = createPool({ url: api.databaseUrl, application: 'test-breaker', max: 1 });
    let isOver = false;
    const breaking = (async () => {
      while (!isOver)
        await breaker.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = 'purser-api'`,
        );
    })();
    const early = await Promise.all(
      keys.map(async (key, i) => [key, await pay(key, i % 2), await pay(key, (i + 1) % 2)] as const),
    );
    isOver = true;
    await breaking;
    await breaker.end();
    await endLeases();
    for (const [key, ...answers] of early) {
      const last = await eventually(
        () => pay(key, 0),
        ({ status }) => status === 200,
      );
      for (const answer of answers) {
        expect([200, 409, 503]).toContain(answer.status);
        if (answer.status === 200) expect(answer.body.id).toBe(last.body.id);
      }
    }
    const stored = await paymentsOf(memo);
    expect(stored.map(({ key }) => key).sort()).toEqual(keys.toSorted());
  });
});

describe('whatever the order of keys, bodies, processes and clients that leave', () => {
  interface Request {
    readonly key: number;
    readonly amount: string;
    readonly process: number;
    /** When the client gives up; never unless given. */
    readonly cutMs: number | undefined;
  }
  const request = fc.record<Request>({
    key: fc.nat(2),
    amount: fc.constantFrom('1', '1', '1', '2'),
    process: fc.nat(1),
    cutMs: fc.option(fc.nat(40), { nil: undefined, freq: 2 }),
  });
  /** What is sent at once; the next is sent when all of it is answered. */
  const wave = fc.record({ requests: fc.array(request, { minLength: 1, maxLength: 6 }), isTakenForDead: fc.boolean() });

  /** A request whose client leaves; undefined when it did so before there was an answer. */
  async function send({ key, amount, process, cutMs }: Request, memo: string): Promise<KeyedAnswer | undefined> {
    const body = payment(agent.id, { memo, amount });
    if (cutMs === undefined) return posts[process]!('/transactions', body, withKey(`${memo} ${key}`));
    await fetch(`${processes[process]!.url}/api/v1/transactions`, {
      method: 'POST',
      headers: { 'x-api-key': account.key, 'content-type': 'application/json', ...withKey(`${memo} ${key}`) },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(cutMs),
    }).then(
      (response) => response.body?.cancel(),
      () => {},
    );
    return undefined;
  }

  interface Sent {
    readonly request: Request;
    readonly answer: KeyedAnswer | undefined;
  }

  async function sendAll(requests: readonly Request[], memo: string): Promise<Sent[]> {
    return Promise.all(requests.map(async (request) => ({ request, answer: await send(request, memo) })));
  }

  /** Sends them; and once more while the first are at work, but taken for dead, and their payments have gone on. */
  async function sendTwice(requests: readonly Request[], memo: string): Promise<Sent[]> {
    let isOver = false;
    const first = sendAll(requests, memo).finally(() => {
      isOver = true;
    });
    // Without a pause: they are at work for a moment only.
    while (!isOver && !(await takeForDead(memo)));
    return [...(await sendAll(requests, memo)), ...(await first)];
  }

  async function takeForDead(memo: string): Promise<boolean> {
    await api.pool.query(`update transactions set status_detail = 'policy_check' where memo = $1`, [memo]);
    const { rowCount } = await endLeases();
    return rowCount !== 0;
  }

  it('there is one payment a key at most, one answer a key, and none for another body (F18)', async () => {
    const seen = { answers: 0, rebuilt: 0 };
    const endMs = performance.now() + maxPropertyMs;
    await fc.assert(
      fc.asyncProperty(fc.array(wave, { minLength: 1, maxLength: 3 }), async (waves) => {
        if (performance.now() > endMs && Math.min(seen.answers, seen.rebuilt) > 0) return;
        const memo = newKey();
        const texts = new Map<number, string>();
        for (const { requests, isTakenForDead } of waves)
          for (const { request, answer } of await (isTakenForDead ? sendTwice : sendAll)(requests, memo)) {
            if (answer?.status === 200) {
              expect([answer.body.amount, answer.text]).toEqual([
                request.amount,
                texts.get(request.key) ?? answer.text,
              ]);
              texts.set(request.key, answer.text);
              seen.answers += 1;
              if (answer.body.status_detail === 'policy_check') seen.rebuilt += 1;
            } else if (answer)
              expect([answer.status, answer.body.code]).toEqual([409, expect.stringMatching(/^idempotency_key_/)]);
          }
        const stored = await paymentsOf(memo);
        expect(new Set(stored.map(({ key }) => key)).size).toBe(stored.length);
        for (const [key, text] of texts)
          expect(stored).toContainEqual({ id: JSON.parse(text).id, key: `${memo} ${key}` });
      }),
      { numRuns: 40 },
    );
    console.log(`random interleavings: ${seen.answers} payments answered, ${seen.rebuilt} of them from the row`);
    expect(Math.min(seen.answers, seen.rebuilt)).toBeGreaterThan(0);
  });
});
