import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { approvalsOfPayment } from '../../../shared/db/approvals.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { insertPolicy } from '../../../shared/db/policies.ts';
import { newId } from '../../../shared/ids.ts';
import { insertTestPayment, type TestAgent } from '../../support/rows.ts';
import { createAgent, type TestAccount, type TestApi } from './harness.ts';

/** A question to people, as one policy wants it. */
export interface Demand {
  readonly approvers: readonly string[];
  readonly required?: number;
  readonly timeoutSeconds?: number;
}

export interface Asked {
  readonly agent: TestAgent;
  readonly transactionId: string;
  /** Of the first policy. */
  readonly approvalId: string;
  /** One for each policy, in their order. */
  readonly approvalIds: readonly string[];
}

/** A payment of a new agent that waits for people, put to them by the activity that does so; nobody else works on it. */
export async function askPeople(
  { pool }: TestApi,
  account: TestAccount,
  demands: readonly [Demand, ...Demand[]],
): Promise<Asked> {
  const { id: agentId } = await createAgent(account);
  const { rows } = await pool.query<{ id: string }>('select id from wallets where agent_id = $1', [agentId]);
  const agent = { accountId: account.id, agentId, walletId: rows[0]!.id };
  const policyIds: string[] = [];
  for (const { approvers, required = 1, timeoutSeconds = 3600 } of demands) {
    const rules = { threshold: '0.5', approvers, required_approvals: required, timeout_seconds: timeoutSeconds };
    policyIds.push((await insertPolicy(pool, { id: newId('pol'), ...agent, type: 'human_approval', rules })).id);
  }
  const transactionId = await insertTestPayment(pool, agent);
  await createEvaluatePolicy({ pool, clock: databaseClock })(transactionId);
  const questions = await approvalsOfPayment(pool, { paymentId: transactionId });
  const approvalIds = policyIds.map((id) => questions.find(({ policy_id }) => policy_id === id)!.id);
  return { agent, transactionId, approvalId: approvalIds[0]!, approvalIds };
}

/** Moves the end of a question to so many milliseconds from now. @returns that instant */
export async function expireIn(
  { pool }: TestApi,
  { approvalId, ms }: { approvalId: string; ms: number },
): Promise<Date> {
  const { rows } = await pool.query<{ expires_at: Date }>(
    `update approvals set created_at = created_at - interval '1 hour',
            expires_at = clock_timestamp() + $2 * interval '1 millisecond'
     where id = $1 returning expires_at`,
    [approvalId, ms],
  );
  return rows[0]!.expires_at;
}

/** Everything that tells of a question, to see that it all tells the same. */
export async function tracesOf({ pool }: TestApi, { approvalId, transactionId }: Asked) {
  const one = async <T>(text: string, id: string) => (await pool.query(text, [id])).rows as T[];
  const [approval] = await one<{
    status: string;
    xid: string;
    decisions: { approver: string; decision: string }[];
    decided_at: Date | null;
  }>('select status, decisions, decided_at, xmin::text as xid from approvals where id = $1', approvalId);
  const events = await one<{ type: string; xid: string; data: Record<string, unknown> }>(
    `select type, data, xmin::text as xid from events where resource_id = $1 and type <> 'approval.requested' order by id`,
    approvalId,
  );
  const audits = await one<{
    action: string;
    actor_type: string;
    actor_id: string;
    metadata: Record<string, unknown>;
    xid: string;
  }>(
    `select action, actor_type, actor_id, metadata, xmin::text as xid from audit_inbox where resource_id = $1
     order by id`,
    approvalId,
  );
  const [payment] = await one<{ status: string; failure_code: string | null }>(
    'select status, failure_code from transactions where id = $1',
    transactionId,
  );
  return { approval: approval!, events, audits, payment: payment! };
}
