import { userInfo } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectTestTemporal, type TestTemporal } from '../../support/temporal.ts';
import { createAdmin } from './admin-calls.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { askPeople, expireIn, tracesOf } from './questions.ts';

describe('npm run admin -- approval approve|reject', () => {
  const ann = 'ann@example.com';
  const bob = 'bob@example.com';
  let api: TestApi;
  let account: TestAccount;
  let temporal: TestTemporal;
  beforeAll(async () => {
    temporal = await connectTestTemporal();
    api = await startTestApi({ temporalAddress: temporal.address });
    account = await api.account();
  });
  afterAll(async () => {
    await api?.stop();
    await temporal?.close();
  });

  const { run, runProcess } = createAdmin({ databaseUrl: () => api.databaseUrl });
  const decide = (verb: string, args: string[], env: Record<string, string> = {}) =>
    run(['approval', verb, ...args], env);
  const decideInProcess = (verb: string, args: string[], env: Record<string, string> = {}) =>
    runProcess(['approval', verb, ...args], env);

  it.each([
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ])('%s decides for the approver, by the name of the operator', async (verb, status) => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob] }]);
    const args = [asked.approvalId, '--as', 'Ann@Example.com', '--reason', 'Ann is ill; told us by telephone.'];
    const { code, stdout, stderr } = await decideInProcess(verb, args);
    expect([code, stderr]).toEqual([0, '']);
    const printed = JSON.parse(stdout);
    expect((await account.call('GET', `/api/v1/approvals/${asked.approvalId}`)).body).toEqual(printed);
    expect(printed).toMatchObject({ status, decisions: [{ approver: ann, decision: status }] });
    const { approval, events, audits } = await tracesOf(api, asked);
    expect(events).toMatchObject([{ type: `approval.${status}`, xid: approval.xid }]);
    expect(audits).toEqual([
      {
        action: `approval.${status}`,
        actor_type: 'system',
        actor_id: 'operator',
        metadata: {
          ...{ transaction_id: asked.transactionId, ledger_id: null },
          status,
          approver: ann,
          note: 'Ann is ill; told us by telephone.',
          via: 'operator',
          operator: userInfo().username,
        },
        xid: approval.xid,
      },
    ]);
  });

  it('tells the payment at once where Temporal is known', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const taskQueue = `nobody-${asked.transactionId}`;
    const handle = await temporal.client.workflow.start('any', { taskQueue, workflowId: asked.transactionId });
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    const { code, stderr } = await decideInProcess('approve', args, { TEMPORAL_ADDRESS: temporal.address });
    expect([code, stderr]).toEqual([0, '']);
    const { events } = await handle.fetchHistory();
    const signals = events!.map((event) => event.workflowExecutionSignaledEventAttributes?.signalName);
    expect(signals.filter((name) => name)).toEqual(['approve']);
    await handle.terminate();
  });

  it('decides all the same while Temporal is away, and says a word about it', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const startMs = performance.now();
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    const { code, stdout, stderr } = await decideInProcess('reject', args, { TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect([code, JSON.parse(stdout).status, stderr]).toEqual([
      0,
      'rejected',
      'Temporal was not told; the payment finds the decision by itself within 15 seconds.\n',
    ]);
    expect(performance.now() - startMs).toBeLessThan(100_000);
  });

  it('is refused where it is not allowed: in production unless configured, in sandbox if configured', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const args = [asked.approvalId, '--as', ann, '--reason', 'Told us.'];
    for (const env of [{ PURSER_ENV: 'production' }, { PURSER_OPERATOR_APPROVALS: 'off' }]) {
      const { code, stderr } = await decide('approve', args, env);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^Operators decide nothing in this .* PURSER_OPERATOR_APPROVALS=on allows it\.\n$/),
      ]);
    }
    expect(await tracesOf(api, asked)).toMatchObject({ approval: { status: 'pending' }, audits: [] });
    const allowed = { PURSER_ENV: 'production', PURSER_OPERATOR_APPROVALS: 'on' };
    expect((await decide('approve', args, allowed)).code).toBe(0);
  });

  it('is refused like anybody: not asked, decided, over, unknown; each in a sentence', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob], required: 2 }]);
    const late = await askPeople(api, account, [{ approvers: [ann] }]);
    await expireIn(api, { approvalId: late.approvalId, ms: -1 });
    const as = (id: string, email: string) => decide('approve', [id, '--as', email, '--reason', 'Told us.']);
    expect((await as(asked.approvalId, ann)).code).toBe(0);
    for (const [id, email, words] of [
      [asked.approvalId, 'eve@example.com', /^eve@example\.com is not asked to approve apr_/],
      [asked.approvalId, ann, /^ann@example\.com has approved apr_.* already; others have yet to decide\.$/],
      [late.approvalId, ann, /^Approval apr_.* expired at .*Z: nothing can be decided any more\.$/],
      ['apr_00000000000000000000000000', ann, /^There is no approval apr_00000000000000000000000000\.$/],
    ] as const) {
      const { code, stdout, stderr } = await as(id, email);
      expect([code, stdout, stderr.trim()]).toEqual([expect.toBeOneOf([1, 2]), '', expect.stringMatching(words)]);
    }
  });

  const id = 'apr_00000000000000000000000000';
  it.each([
    [['approve'], /ID is missing/],
    [['approve', 'tx_1', '--as', ann, '--reason', 'x'], /ID is no identifier of an approval/],
    [['approve', id, '--reason', 'x'], /--as is missing/],
    [['approve', id, '--as', 'ann', '--reason', 'x'], /--as must be an e-mail address/],
    [['reject', id, '--as', ann], /--reason is missing/],
    [['reject', id, '--as', ann, '--reason', ' '], /--reason is empty/],
    [['reject', id, '--as', ann, '--reason', 'x'.repeat(1025)], /--reason has more than 1024 characters/],
    [['reject', id, '--as', ann, '--reason', 'a\u0007b'], /--reason holds characters that are no text/],
    [['reject', id, id, '--as', ann, '--reason', 'x'], /Usage: npm run admin/],
    [['cancel', id, '--as', ann, '--reason', 'x'], /Usage: npm run admin/],
    [['reject', id, '--by', ann], /--by/],
  ])('approval %j is answered with what would be right', async (args, words) => {
    const { code, stderr } = await run(['approval', ...args]);
    expect([code, stderr]).toEqual([expect.toBeOneOf([1, 2]), expect.stringMatching(words)]);
  });
});
