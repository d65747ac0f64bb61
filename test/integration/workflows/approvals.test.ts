import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Address } from 'viem';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { decideApprovals } from '../../../api/operations/decide-approval.ts';
import { createTemporalGateway, type TemporalGateway } from '../../../api/temporal-gateway.ts';
import { approvalsOfPayment } from '../../../shared/db/approvals.ts';
import { bySystem } from '../../../shared/db/audit.ts';
import { getTransaction } from '../../../shared/db/transactions.ts';
import type { ReconcileResult } from '../../../shared/domain/reconcile.ts';
import { createLogger } from '../../../shared/log.ts';
import { approvalMailWorkflowId, queues, workflowNames } from '../../../shared/temporal.ts';
import { bestOf } from '../../support/best-of.ts';
import { eventually } from '../../support/client.ts';
import { createAgent, payment, type TestAccount } from '../api/harness.ts';
import { type ApiWithChain, startApiWithChain } from '../api/with-chain.ts';

const run = promisify(execFile);
const waiting = 'ApprovalDeadline IS NOT NULL AND ExecutionStatus = "Running"';

/** No signer runs here: a payment that goes on ends up waiting for two of them. */
describe('a payment that waits for a person', () => {
  let world: ApiWithChain;
  let account: TestAccount;
  beforeAll(async () => {
    world = await startApiWithChain();
    account = await world.api.account();
  });
  afterAll(() => world?.stop());

  /** A payment that waits, with the people told or about to be. */
  async function ask(rules: Record<string, unknown> = {}) {
    const agent = await createAgent(account);
    await world.local.fund(agent.address as Address);
    const made = await account.call('POST', '/api/v1/policies', {
      agent_id: agent.id,
      type: 'human_approval',
      rules: { threshold: '10', approvers: ['a@example.com', 'b@example.com'], ...rules },
    });
    expect(made.status).toBe(200);
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    expect([status, body.status, body.approval?.status]).toEqual([200, 'pending', 'pending']);
    await eventually(
      () => describeMail(body.approval.id),
      (found) => found !== undefined,
    );
    return { id: body.id as string, approvalId: body.approval.id as string, agentId: agent.id, policyId: made.body.id };
  }
  const describeMail = (approvalId: string) =>
    world.temporal.workflow
      .getHandle(approvalMailWorkflowId(approvalId))
      .describe()
      .catch(() => undefined);

  const gateway = () =>
    createTemporalGateway({
      client: world.temporal,
      decisionWaitMs: 1_000,
      log: createLogger({ process: 'test', level: 'silent' }),
    });
  /** As the api decides; `word` is how the workflow hears of it. */
  async function decide(
    { id, agentId }: { id: string; agentId: string },
    {
      approver = 'a@example.com',
      decision = 'approved' as 'approved' | 'rejected',
      word = gateway().tellAnswer,
    }: { approver?: string; decision?: 'approved' | 'rejected'; word?: TemporalGateway['tellAnswer'] } = {},
  ) {
    const open = (await approvalsOfPayment(world.api.pool, { paymentId: id })).find(
      ({ status }) => status === 'pending',
    );
    const answer = { approvalId: open!.id, agentId, approver, decision, note: null };
    const deps = { pool: world.api.pool, tellAnswer: word };
    const result = await decideApprovals(deps, { answers: [answer], door: { via: 'bearer', acting: bySystem } });
    if ('refusal' in result) throw new Error(result.refusal);
  }
  const nobody = async () => {};

  async function reach(id: string, detail: string): Promise<number> {
    const from = performance.now();
    await eventually(
      () => getTransaction(world.api.pool, { id }),
      (row) => row?.status_detail === detail,
    );
    return performance.now() - from;
  }
  const history = async (id: string) => (await world.temporal.workflow.getHandle(id).fetchHistory()).events ?? [];
  /** One run of the schedule. */
  const remind = (): Promise<ReconcileResult> =>
    world.temporal.workflow.execute(workflowNames.reconcile, {
      taskQueue: queues.wallet,
      workflowId: `reconcile-${Date.now()}`,
    });
  const failureOf = async (id: string) => {
    const row = await getTransaction(world.api.pool, { id });
    return row?.failure_code;
  };

  it('goes on within a second after the decision', async () => {
    const goesOn = async () => {
      const asked = await ask();
      await decide(asked);
      return reach(asked.id, 'signing');
    };
    // The first payment of a new worker finds nothing ready yet.
    await goesOn();
    expect(await bestOf(goesOn, { withinMs: 1_000 })).toBeLessThan(1_000);
  });

  it('fails within a second after a rejection, also when others have agreed', async () => {
    const fails = async () => {
      const asked = await ask({ required_approvals: 2 });
      await decide(asked);
      await decide(asked, { approver: 'b@example.com', decision: 'rejected' });
      const tookMs = await reach(asked.id, 'failed');
      expect(await failureOf(asked.id)).toBe('approval_rejected');
      return tookMs;
    };
    expect(await bestOf(fails, { withinMs: 1_000 })).toBeLessThan(1_000);
  });

  it('is found by the saved query while it waits, with its deadline, and not afterwards', async () => {
    const asked = await ask({ timeout_seconds: 600 });
    const find = async () => {
      for await (const found of world.temporal.workflow.list({ query: waiting }))
        if (found.workflowId === asked.id) return found;
      return undefined;
    };
    const found = await eventually(find, (one) => one !== undefined);
    const [question] = await approvalsOfPayment(world.api.pool, { paymentId: asked.id });
    expect(found?.searchAttributes.ApprovalDeadline).toEqual([question?.expires_at]);
    await decide(asked);
    await reach(asked.id, 'signing');
    await eventually(find, (one) => one === undefined);
  });

  it('does not go on by signals sent by hand through the command line', async () => {
    const asked = await ask();
    const looks = async () => {
      const events = await history(asked.id);
      return events.filter(({ markerRecordedEventAttributes: marker }) => marker?.markerName === 'core_local_activity')
        .length;
    };
    for (const name of ['approve', 'reject']) {
      const before = await looks();
      const args = [
        'workflow',
        'signal',
        '--workflow-id',
        asked.id,
        '--name',
        name,
        '--input',
        '{"status":"approved"}',
      ];
      await run(inject('stack').temporalBinary, [...args, '--address', world.temporalAddress]);
      // It has looked into the database, and found nothing there.
      await eventually(looks, (count) => count > before);
    }
    const row = await getTransaction(world.api.pool, { id: asked.id });
    expect(row).toMatchObject({ status: 'pending', status_detail: 'awaiting_approval', nonce: null });
    const [question] = await approvalsOfPayment(world.api.pool, { paymentId: asked.id });
    expect(question).toMatchObject({ status: 'pending', decisions: [] });
  });

  it('finds a decision of which it never heard, by its own timer', async () => {
    const asked = await ask();
    await decide(asked, { word: nobody });
    await reach(asked.id, 'signing');
  });

  it('F28 is told again by the reconcile schedule when it had stopped looking often', async () => {
    const asked = await ask();
    // Each look that finds nothing doubles the time to the next.
    const quietFor = async () => {
      const timers = (await history(asked.id)).map(({ timerStartedEventAttributes: timer }) => timer);
      return Number(timers.findLast((timer) => timer)?.startToFireTimeout?.seconds ?? 0);
    };
    await eventually(quietFor, (seconds) => seconds >= 8, { timeoutMs: 150_000 });
    await decide(asked, { word: nobody });
    const result = await eventually(remind, ({ reminded }) => reminded > 0);
    expect(result.reminded).toBe(1);
    await reach(asked.id, 'signing');
    // By the reminder: the timer for its own next look had not fired.
    const events = await history(asked.id);
    const looks = events.flatMap(({ timerStartedEventAttributes: timer }) => timer ?? []);
    const next = looks.findLast(({ startToFireTimeout }) => Number(startToFireTimeout?.seconds) >= 8);
    const fired = events.flatMap(({ timerFiredEventAttributes: timer }) => timer?.timerId ?? []);
    expect(fired).not.toContain(next!.timerId);
    expect((await remind()).reminded).toBe(0);
  });

  it('is denied after the approval when a policy forbids it by then', async () => {
    const asked = await ask();
    // The next hours are all closed but the one that has just passed.
    const hour = (new Date().getUTCHours() + 22) % 24;
    await account.call('POST', '/api/v1/policies', {
      agent_id: asked.agentId,
      type: 'schedule',
      rules: { timezone: 'UTC', allowed_hours: { start: hour, end: hour + 1 } },
    });
    await decide(asked);
    await reach(asked.id, 'failed');
    expect(await failureOf(asked.id)).toBe('policy_violation');
  });

  it('is denied after the approval when its agent was deactivated while it waited', async () => {
    const asked = await ask();
    await account.call('PUT', `/api/v1/agents/${asked.agentId}/status`, { status: 'inactive' });
    await decide(asked);
    await reach(asked.id, 'failed');
    expect(await failureOf(asked.id)).toBe('agent_inactive');
  });

  it('asks the people whom the policy names by then when it was changed, by a mail of its own', async () => {
    const asked = await ask();
    const rules = { threshold: '10', approvers: ['c@example.com'] };
    await account.call('PUT', `/api/v1/policies/${asked.policyId}`, { rules });
    expect((await remind()).reminded).toBe(1);
    const questions = await eventually(
      () => approvalsOfPayment(world.api.pool, { paymentId: asked.id }),
      (found) => found.length === 2,
    );
    expect(questions.map(({ status, approvers }) => [status, approvers]).sort()).toEqual([
      ['cancelled', ['a@example.com', 'b@example.com']],
      ['pending', ['c@example.com']],
    ]);
    await eventually(
      () => describeMail(questions.find(({ status }) => status === 'pending')!.id),
      (found) => found !== undefined,
    );
    await decide(asked, { approver: 'c@example.com' });
    await reach(asked.id, 'signing');
  });

  it('asks anew when the one who agreed was struck off before it was signed', async () => {
    const asked = await ask();
    const rules = { threshold: '10', approvers: ['c@example.com'] };
    await account.call('PUT', `/api/v1/policies/${asked.policyId}`, { rules });
    await decide(asked);
    await eventually(
      () => approvalsOfPayment(world.api.pool, { paymentId: asked.id }),
      (found) => found.length === 2,
    );
    expect(await getTransaction(world.api.pool, { id: asked.id })).toMatchObject({
      status_detail: 'awaiting_approval',
      nonce: null,
    });
  });

  it('goes on when the policy that asked is deleted, and asks who is named by one that is added', async () => {
    const asked = await ask();
    const rules = { threshold: '1', approvers: ['d@example.com'] };
    const added = { agent_id: asked.agentId, type: 'human_approval', rules };
    await account.call('POST', '/api/v1/policies', added);
    // Payments of other tests may be reminded as well.
    expect((await remind()).reminded).toBeGreaterThanOrEqual(1);
    await eventually(
      () => approvalsOfPayment(world.api.pool, { paymentId: asked.id }),
      (found) => found.filter(({ status }) => status === 'pending').length === 2,
    );
    await account.call('DELETE', `/api/v1/policies/${asked.policyId}`);
    expect((await remind()).reminded).toBeGreaterThanOrEqual(1);
    await eventually(
      () => approvalsOfPayment(world.api.pool, { paymentId: asked.id }),
      (found) => found.filter(({ status }) => status === 'pending').length === 1,
    );
    await decide(asked, { approver: 'd@example.com' });
    await reach(asked.id, 'signing');
  });

  it('is not held up by mails that nobody sends', async () => {
    const asked = await ask();
    await eventually(
      () => describeMail(asked.approvalId),
      (found) => found?.raw.pendingActivities?.length === 2,
    );
    await decide(asked);
    await reach(asked.id, 'signing');
    expect((await describeMail(asked.approvalId))?.status.name).toBe('RUNNING');
  });

  it('asks once, also when its workflow was terminated by hand and started again', async () => {
    const asked = await ask();
    await world.temporal.workflow.getHandle(asked.id).terminate('by an operator');
    await world.api.pool.query(
      `update transactions set created_at = now() - interval '1 minute', reconciled_at = null where id = $1`,
      [asked.id],
    );
    await remind();
    await decide(asked);
    await reach(asked.id, 'signing');
    expect(await approvalsOfPayment(world.api.pool, { paymentId: asked.id })).toHaveLength(1);
  });
});
