import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createAwaitApproval } from '../../../activities/await-approval.ts';
import { freePort } from '../../../dev/ports.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { testTokenEnv } from '../../support/token-keys.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { type Asked, askPeople, expireIn, tracesOf } from './questions.ts';

const main = fileURLToPath(new URL('../../../api/main.ts', import.meta.url));
const people = Array.from({ length: 20 }, (_, i) => `person${i}@example.com`);
type Verb = 'approve' | 'reject';

let api: TestApi;
let account: TestAccount;
const processes: ChildProcess[] = [];
/** Where the two processes listen. */
let urls: string[];
let tokens: string[];

beforeAll(async () => {
  const { temporalAddress } = inject('stack');
  api = await startTestApi({ temporalAddress });
  account = await api.account();
  tokens = await Promise.all(people.map(async (email) => (await account.person(email)).token));
  urls = await Promise.all([1, 2].map(() => startProcess({ temporalAddress })));
});
afterAll(async () => {
  for (const child of processes) child.kill('SIGKILL');
  await api?.stop();
});

async function startProcess({ temporalAddress }: { temporalAddress: string }): Promise<string> {
  const port = await freePort();
  const env = {
    PATH: process.env.PATH,
    PURSER_ENV: 'sandbox',
    PURSER_CHAINS: 'eip155:31337',
    PURSER_LOG_LEVEL: 'warn',
    PURSER_PORT: String(port),
    ...(await testTokenEnv()),
    DATABASE_URL: api.databaseUrl,
    TEMPORAL_ADDRESS: temporalAddress,
    ...(await testWebhookKeys()).env,
  };
  processes.push(spawn(process.execPath, [main], { env, stdio: 'ignore' }));
  const url = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${url}/readyz`).catch(() => undefined)) !== undefined);
  return url;
}

async function until(isSo: () => Promise<boolean> | boolean, { deadlineMs = 90_000 } = {}): Promise<void> {
  const endMs = performance.now() + deadlineMs;
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error(`It did not come about in ${deadlineMs} ms.`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** One person's answer, at one of the two processes. */
const answer = (person: number, process: number, { approvalId }: Asked, verb: Verb) =>
  callWith(urls[process]!, { authorization: `Bearer ${tokens[person]}` })(
    'POST',
    `/api/v1/approvals/${approvalId}/${verb}`,
  );

/** That everything kept about a question tells of one end, and agrees with what the people were answered. */
async function expectOneEnd(asked: Asked, answers: { status: number; body: { code?: string } }[]) {
  const { approval, events, audits } = await tracesOf(api, asked);
  const taken = answers.filter(({ status }) => status === 200);
  for (const { status, body } of answers)
    if (status !== 200) expect([status, body.code]).toEqual([409, 'approval_already_decided']);
  expect(events.map(({ type }) => type)).toEqual([`approval.${approval.status}`]);
  expect(approval.decisions).toHaveLength(taken.length);
  expect(new Set(approval.decisions.map(({ approver }) => approver)).size).toBe(taken.length);
  expect(audits.map(({ actor_id, action }) => `${actor_id} ${action}`).sort()).toEqual(
    approval.decisions.map(({ approver, decision }) => `${approver} approval.${decision}`).sort(),
  );
  const rejections = approval.decisions.filter(({ decision }) => decision === 'rejected');
  expect(rejections).toHaveLength(approval.status === 'rejected' ? 1 : 0);
  return { approval, taken: taken.length };
}

describe('twenty people at two processes of the api at once', () => {
  it.each([1, 2, 10, 19, 20])('come to one end when %i must agree and one rejects', async (required) => {
    const outcomes = new Map<string, number>();
    for (let round = 0; round < 4; round += 1) {
      const asked = await askPeople(api, account, [{ approvers: people, required }]);
      // The one who rejects is sent off in another place each time.
      const rejecting = (round * 6) % people.length;
      const answers = await Promise.all(
        people.map((_, i) => answer(i, i % 2, asked, i === rejecting ? 'reject' : 'approve')),
      );
      const { approval, taken } = await expectOneEnd(asked, answers);
      if (approval.status === 'approved') expect(taken).toBe(required);
      else expect(approval.status).toBe('rejected');
      outcomes.set(approval.status, (outcomes.get(approval.status) ?? 0) + 1);
    }
    // Whoever must all agree cannot have done so.
    if (required === 20) expect([...outcomes.keys()]).toEqual(['rejected']);
  });

  it('are all counted when all must agree and do', async () => {
    const asked = await askPeople(api, account, [{ approvers: people, required: 20 }]);
    const answers = await Promise.all(people.map((_, i) => answer(i, i % 2, asked, 'approve')));
    expect(answers.map(({ status }) => status)).toEqual(people.map(() => 200));
    expect((await expectOneEnd(asked, answers)).approval.status).toBe('approved');
  });

  it.each([1, 2])('are one when they are the same person, and %i must agree', async (required) => {
    const asked = await askPeople(api, account, [{ approvers: people, required }]);
    const answers = await Promise.all(
      people.map((_, i) => answer(0, i % 2, asked, i % 5 === 4 ? 'reject' : 'approve')),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(19);
    const { approval, audits } = await tracesOf(api, asked);
    expect([approval.decisions.length, audits.length]).toEqual([1, 1]);
  });

  it('never wait for each other for ever, answering one payment by its two ids', async () => {
    const asked = await askPeople(api, account, [
      { approvers: people, required: 20 },
      { approvers: people.toReversed(), required: 20, timeoutSeconds: 60 },
    ]);
    const [one, two] = asked.approvalIds as [string, string];
    const answers = await Promise.all(
      people.flatMap((_, i) => [
        answer(i, i % 2, { ...asked, approvalId: i % 4 < 2 ? one : two }, 'approve'),
        callWith(urls[(i + 1) % 2]!, { authorization: `Bearer ${tokens[i]}` })(
          'POST',
          `/api/v1/transactions/${asked.transactionId}/approve`,
        ),
      ]),
    );
    for (const { status } of answers) expect([200, 409]).toContain(status);
    for (const approvalId of [one, two])
      expect((await tracesOf(api, { ...asked, approvalId })).approval.status).toBe('approved');
  });
});

describe('a decision in the last millisecond', () => {
  let workerPool: Pool;
  let awaitApproval: ReturnType<typeof createAwaitApproval>;

  beforeAll(() => {
    workerPool = createPool({ url: api.databaseUrl, application: 'test-worker' });
    awaitApproval = createAwaitApproval({ pool: workerPool, clock: databaseClock });
  });
  afterAll(() => workerPool?.end());

  /** The workflow's timer: looks again and again from just before the end on, as nothing of ours would. */
  async function timer({ transactionId }: Asked) {
    let outcome = 'waiting';
    await until(async () => {
      ({ outcome } = await awaitApproval(transactionId));
      return outcome !== 'waiting';
    });
    return outcome;
  }

  it('is either taken or too late, and everything agrees on which', async () => {
    const seen = { taken: 0, late: 0 };
    const rounds = 60;
    // On a busy machine every answer is late until there is more time for it.
    for (let round = 0; round < rounds || Math.min(seen.taken, seen.late) === 0; round += 1) {
      const scale = 2 ** Math.floor(round / rounds);
      const asked = await askPeople(api, account, [{ approvers: people.slice(0, 1) }]);
      const verb = round % 2 ? 'reject' : 'approve';
      const expiresMs = (await expireIn(api, { approvalId: asked.approvalId, ms: 80 * scale })).getTime();
      // From well before the end to just after it, so that both happen and the edge between them is hit.
      const sendMs = expiresMs + 2 - 4 * scale * (round % 20);
      await until(() => Date.now() >= sendMs);
      const [outcome, { status, body }] = await Promise.all([timer(asked), answer(0, round % 2, asked, verb)]);
      const { approval, events, audits, payment } = await tracesOf(api, asked);
      if (status === 200) {
        seen.taken += 1;
        const decision = verb === 'approve' ? 'approved' : 'rejected';
        const left = verb === 'approve' ? ['go', 'pending', null] : ['rejected', 'failed', 'approval_rejected'];
        expect([outcome, payment.status, payment.failure_code]).toEqual(left);
        expect([approval.status, approval.decisions.length]).toEqual([decision, 1]);
        expect(Date.parse(body.decided_at)).toBeLessThan(expiresMs);
        expect(events.map(({ type }) => type)).toEqual([`approval.${decision}`]);
        expect(audits).toHaveLength(1);
      } else {
        seen.late += 1;
        expect([status, body.code]).toEqual([400, 'approval_timeout']);
        expect([outcome, payment.status, payment.failure_code]).toEqual(['expired', 'failed', 'approval_timeout']);
        expect([approval.status, approval.decisions.length]).toEqual(['expired', 0]);
        expect(events.map(({ type }) => type)).toEqual(['approval.expired']);
        expect(audits).toEqual([]);
      }
    }
    console.log(`last millisecond: ${seen.taken} taken, ${seen.late} too late`);
  });
});
