import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockAgent } from '../../../shared/db/agents.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import { lockSession } from '../../../shared/db/x402-sessions.ts';
import { releaseSession } from '../../../shared/x402-budget.ts';
import { eventually } from '../../support/client.ts';
import type { TestTarget } from '../../support/target.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { startCommitCutter } from './commit-cutter.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, type KeyedAnswer, newKey, withKey } from './idempotency-calls.ts';
import { expectBalancedBooks, openSession, startShop } from './x402-calls.ts';

/** Nobody signs here, so that each payment is waited for so long. */
const decisionWaitMs = 50;
/** Longest time for random races; on a busy machine they are fewer. */
const maxPropertyMs = 5_000;

let temporal: OwnTemporal;
let api: TestApi;
let account: TestAccount;
let agent: { id: string };
let shop: TestTarget;
const processes: ApiProcess[] = [];
/** Of the three processes. */
let posts: ReturnType<typeof createKeyedCalls>['post'][];

beforeAll(async () => {
  [temporal, shop] = await Promise.all([startOwnTemporal(), startShop()]);
  api = await startTestApi({ temporalAddress: temporal.address });
  account = await api.account();
  agent = await createAgent(account);
  processes.push(...(await Promise.all([start(), start(), start()])));
  posts = processes.map(({ url }) => createKeyedCalls({ url, account }).post);
});
afterAll(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await shop?.stop();
  await api?.stop();
  await temporal?.stop();
});

function start({ databaseUrl = api.databaseUrl, waitMs = decisionWaitMs } = {}): Promise<ApiProcess> {
  const env = { PURSER_DECISION_WAIT_MS: String(waitMs), PURSER_X402_FEE_TIERS: '0=1' };
  return startApiProcess({ databaseUrl, temporalAddress: temporal.address, env });
}

const open = (budgetMinor: bigint, ttlSeconds?: number) =>
  openSession(api, { account, agentId: agent.id, budgetMinor, ...(ttlSeconds !== undefined && { ttlSeconds }) });
const payPath = (sessionId: string) => `/x402/sessions/${sessionId}/pay`;
const target = (minor: number) => ({ target_url: `${shop.url}/${minor}` });
const isAtWork = ({ status, body }: KeyedAnswer) => status === 409 && body.code === 'idempotency_key_in_progress';

describe('200 payments at once, at three processes of the api', () => {
  it('out of a budget for 57 of them: 57 are taken, to the last unit', async () => {
    // A cent and its fee, 57 times, and not quite a 58th.
    const session = await open(10_100n * 57n + 10_099n);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => posts[i % 3]!(payPath(session.id), target(10_000), {})),
    );
    const taken = answers.filter(({ status }) => status === 200);
    expect(taken).toHaveLength(57);
    for (const { status, body } of answers)
      if (status !== 200) expect([status, body.code]).toEqual([400, 'budget_exceeded']);
    const { payments, spent, held } = await expectBalancedBooks(api, session.id);
    expect(payments.map(({ id }) => id).sort()).toEqual(taken.map(({ body }) => body.ledger_id).sort());
    expect([spent, held]).toEqual([10_100n * 57n, 10_099n]);
  });

  it('under a limit of the agent for 31 of them: 31 are taken, the others are kept as denied', async () => {
    const { id: agentId } = await createAgent(account);
    const limit = { agent_id: agentId, type: 'spending_limit', rules: { daily_limit: '0.319999' } };
    await account.call('POST', '/api/v1/policies', limit);
    // Several, so that it is not their own locks that keep the limit.
    const sessions = await Promise.all(Array.from({ length: 10 }, () => openSession(api, { account, agentId })));
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) => posts[i % 3]!(payPath(sessions[i % 10]!.id), target(10_000), {})),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(31);
    for (const { status, body } of answers) if (status !== 200) expect(body.code).toBe('policy_violation');
    const books = await Promise.all(sessions.map(({ id }) => expectBalancedBooks(api, id)));
    expect(books.flatMap(({ payments }) => payments)).toHaveLength(60);
    expect(books.reduce((sum, { spent }) => sum + spent, 0n)).toBe(10_100n * 31n);
  });
});

describe('the same key at several processes', () => {
  it('takes the budget once, and all get the same answer or wait (F18)', async () => {
    const session = await open(1_000_000n);
    const headers = withKey(newKey());
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => posts[i % 3]!(payPath(session.id), target(10_000), headers)),
    );
    for (const answer of answers) if (answer.status !== 200) expect(isAtWork(answer)).toBe(true);
    const paid = answers.filter(({ status }) => status === 200);
    expect(new Set(paid.map(({ text }) => text)).size).toBe(1);
    expect(await posts[0]!(payPath(session.id), target(10_000), headers)).toMatchObject({ replayed: 'true' });
    const other = await posts[1]!(payPath(session.id), target(10_001), headers);
    expect(other.body.code).toBe('idempotency_key_conflict');
    const { payments, spent } = await expectBalancedBooks(api, session.id);
    expect([payments.map(({ id }) => id), spent]).toEqual([[paid[0]!.body.ledger_id], 10_100n]);
  });

  it('is given the same denial again, and no refusal that stored nothing', async () => {
    const { id: agentId } = await createAgent(account);
    const rules = { max_transaction_amount: '0.01' };
    await account.call('POST', '/api/v1/policies', { agent_id: agentId, type: 'spending_limit', rules });
    const session = await openSession(api, { account, agentId, budgetMinor: 10_000n });
    const path = payPath(session.id);
    const { expectReplay, post } = createKeyedCalls({ url: processes[0]!.url, account });
    const denied = await expectReplay(path, target(10_001), withKey(newKey()));
    expect([denied.status, denied.body.code]).toEqual([400, 'policy_violation']);
    const headers = withKey(newKey());
    expect((await post(path, target(10_000), headers)).body.code).toBe('budget_exceeded');
    await api.pool.query('update x402_sessions set budget_minor = 10100 where id = $1', [session.id]);
    expect((await post(path, target(10_000), headers)).status).toBe(200);
  });

  it('has its answer given by another process where the first is killed in between (F18)', async () => {
    const victim = await start({ waitMs: 30_000 });
    const session = await open(1_000_000n);
    const headers = withKey(newKey());
    const lost = createKeyedCalls({ url: victim.url, account })
      .post(payPath(session.id), target(10_000), headers)
      .then(
        () => 'answered',
        () => 'lost',
      );
    await eventually(
      () => expectBalancedBooks(api, session.id),
      ({ payments }) => payments.length === 1,
    );
    await victim.kill();
    expect(await lost).toBe('lost');
    expect(isAtWork(await posts[0]!(payPath(session.id), target(10_000), headers))).toBe(true);
    await api.pool.query('update idempotency_keys set lease_until = now() where status is null');
    const again = await posts[1]!(payPath(session.id), target(10_000), headers);
    const { payments, spent } = await expectBalancedBooks(api, session.id);
    expect([again.status, again.replayed, again.body.ledger_id]).toEqual([200, 'true', payments[0]!.id]);
    expect([payments.length, spent]).toEqual([1, 10_100n]);
  });

  it('is charged once where the connection to the database breaks right before or after the commit, with a key or without', async () => {
    const cutter = await startCommitCutter({ databaseUrl: api.databaseUrl });
    const own = await start({ databaseUrl: cutter.url });
    const { post } = createKeyedCalls({ url: own.url, account });
    for (const when of ['before', 'after'] as const)
      for (const headers of [withKey(newKey()), {}] as Record<string, string>[]) {
        // Enough for one: a second try that did not know of the first would be refused.
        const session = await open(10_100n);
        cutter.cutNextCommit(when);
        const answer = await post(payPath(session.id), target(10_000), headers);
        const { payments, spent } = await expectBalancedBooks(api, session.id);
        expect([when, answer.status, answer.body.ledger_id]).toEqual([when, 200, payments[0]!.id]);
        expect([payments.length, spent]).toEqual([1, 10_100n]);
      }
    await own.kill();
    await cutter.stop();
  });
});

describe('payments, deletion and expiry at one instant', () => {
  /** As the session's workflow does when its time is over. */
  const expireNow = async (id: string): Promise<boolean> => {
    const soon = `update x402_sessions set expires_at = least(expires_at, clock_timestamp()),
                         created_at = created_at - interval '1 day' where id = $1`;
    await api.pool.query(soon, [id]);
    return inTransaction(api.pool, async (db) => {
      await lockAgent(db, { id: agent.id });
      const session = (await lockSession(db, { id }))!;
      return releaseSession(db, { session, by: 'expiry' });
    });
  };
  const remove = async (id: string, process: number) => {
    const url = `${processes[process]!.url}/api/v1/x402/sessions/${id}`;
    const response = await fetch(url, { method: 'DELETE', headers: { 'x-api-key': account.key } });
    return { status: response.status, body: (await response.json()) as { code?: string } };
  };

  const act = fc.record({
    what: fc.constantFrom('pay', 'pay', 'pay', 'delete', 'expire'),
    afterMs: fc.nat(30),
    process: fc.nat(2),
  });

  it('end the session once, give the rest back once, and leave each payment what it holds', async () => {
    const seen = { paid: 0, refused: 0, deleted: 0, expired: 0 };
    const endMs = performance.now() + maxPropertyMs;
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 3, maxLength: 12 }), async (acts) => {
        if (performance.now() > endMs && Math.min(...Object.values(seen)) > 0) return;
        const session = await open(30_000n);
        const endings = await Promise.all(
          acts.map(async ({ what, afterMs, process }) => {
            await new Promise((resolve) => setTimeout(resolve, afterMs));
            if (what === 'expire') return (await expireNow(session.id)) ? 'expired' : undefined;
            if (what === 'delete') {
              const { status, body } = await remove(session.id, process);
              if (status !== 200) expect([status, body.code]).toEqual([400, 'session_expired']);
              return status === 200 ? 'deleted' : undefined;
            }
            const { status, body } = await posts[process]!(payPath(session.id), target(5_000), {});
            if (status === 200) seen.paid += 1;
            else {
              seen.refused += 1;
              expect([400, expect.stringMatching(/^(session_expired|budget_exceeded)$/)]).toEqual([status, body.code]);
            }
            return undefined;
          }),
        );
        const { isOpen, payments } = await expectBalancedBooks(api, session.id);
        const ended = new Set(endings.filter((each) => each !== undefined));
        expect(ended.size).toBeLessThanOrEqual(1);
        expect(isOpen).toBe(ended.size === 0);
        if (ended.has('deleted')) seen.deleted += 1;
        if (ended.has('expired')) seen.expired += 1;
        expect(payments.length).toBeLessThanOrEqual(5);
        const { rows } = await api.pool.query<{ type: string }>(
          `select type from events where resource_id = $1 and type <> 'x402.session.exhausted'`,
          [session.id],
        );
        expect(rows).toEqual(ended.has('deleted') ? [{ type: 'x402.session.deleted' }] : []);
      }),
      { numRuns: 60 },
    );
    console.log(`races: ${JSON.stringify(seen)}`);
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });
});
