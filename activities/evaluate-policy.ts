import { insertApprovalMails } from '../shared/db/approval-mails.ts';
import { approvalsOfPayment, getApproval, insertApproval, withdrawApproval } from '../shared/db/approvals.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import { insertAudit } from '../shared/db/audit.ts';
import type { Clock } from '../shared/db/clock.ts';
import { insertEvent } from '../shared/db/events.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { reserve } from '../shared/db/reservations.ts';
import { findSlot } from '../shared/db/slots.ts';
import { storeDecision, type TransactionRow } from '../shared/db/transactions.ts';
import { isAgreed, stillAsks } from '../shared/domain/approval.ts';
import { toAtoms } from '../shared/domain/money.ts';
import { type Decision, type Evaluation, explainViolation } from '../shared/domain/policy/engine.ts';
import type { ApprovalDemand } from '../shared/domain/policy/types.ts';
import { endUnsent } from '../shared/end-unsent.ts';
import { newId } from '../shared/ids.ts';
import { judgePayment } from '../shared/judge-payment.ts';
import { renderApproval } from '../shared/render-approval.ts';
import { inactiveFailure, lockAgentAndTransaction } from './end-payment.ts';

export type EvaluatePolicyResult =
  | { readonly outcome: 'denied' | 'ended' }
  /**
   * `resume`: the first step that the database does not show as done.
   * `answerWithinMs`: a person is asked; how long the first question stands.
   */
  | { readonly outcome: 'allowed'; readonly resume: 'prepare' | 'sign' | 'watch'; readonly answerWithinMs?: number };

/**
 * First evaluation: judges the payment once, under the agent's lock, stores the decision with the row, and takes the
 * amount from the agent's limits, all in one database transaction. Asks a person where a policy wants it: such a
 * payment is allowed to go on, and `allot` gives it no nonce before the answer.
 * A repeat returns what was stored, and says where to go on.
 */
export function createEvaluatePolicy({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function evaluatePolicy(transactionId: string): Promise<EvaluatePolicyResult> {
    return inTransaction(pool, async (db) => {
      const { agent, row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status === 'failed' && row.decision?.outcome === 'deny') return { outcome: 'denied' };
      if (row.status !== 'pending') return { outcome: 'ended' };
      if (row.decision) return { ...(await firstStepLeft(db, transactionId)), ...(await timeToAnswer(db, row, clock)) };
      if (agent.status !== 'active') {
        await endUnsent(db, row, inactiveFailure(row));
        return { outcome: 'denied' };
      }
      const now = await clock(db);
      const evaluation = await judge(db, row, now);
      const { decision } = evaluation;
      await storeDecision(db, { id: row.id, decisionId: newId('dec'), decision });
      await noteEvaluation(db, row, { evaluation, stage: 'first' });
      if (decision.outcome === 'deny') {
        await endUnsent(db, row, denialFailure(decision));
        return { outcome: 'denied' };
      }
      await reserveFor(db, row, now);
      await askPeople(db, row, { decision, now });
      const timeouts = decision.approvals.map((each) => each.timeout_seconds * 1000);
      if (timeouts.length === 0) return { outcome: 'allowed', resume: 'prepare' };
      return { outcome: 'allowed', resume: 'prepare', answerWithinMs: Math.min(...timeouts) };
    });
  };
}

/** Judges a stored payment by its agent's policies and usage as they stand in this database transaction. */
export function judge(db: Queryable, row: TransactionRow, now: Date): Promise<Evaluation> {
  const payment = {
    chain: row.chain,
    token: row.token,
    decimals: row.decimals,
    amountMinor: BigInt(row.amount_minor),
    toAddress: row.to_address,
  };
  return judgePayment(db, { agentId: row.agent_id, payment, now, paymentId: row.id });
}

/** Takes a stored payment from its agent's limits, or moves it to this moment. */
export function reserveFor(db: Queryable, row: TransactionRow, now: Date): Promise<void> {
  const atoms = toAtoms(BigInt(row.amount_minor), row.decimals);
  const { id: transactionId, account_id: accountId, agent_id: agentId, token } = row;
  return reserve(db, { paymentId: transactionId, accountId, agentId, token, atoms, now });
}

/** What was decided and why, for the audit log; what was denied, for the receivers of events. */
export async function noteEvaluation(
  db: Queryable,
  row: TransactionRow,
  { evaluation: { decision, findings }, stage }: { evaluation: Evaluation; stage: 'first' | 'second' },
): Promise<void> {
  const isDenied = decision.outcome === 'deny';
  const about = {
    accountId: row.account_id,
    agentId: row.agent_id,
    resourceType: 'transaction' as const,
    resourceId: row.id,
  };
  await insertAudit(db, {
    ...about,
    action: 'transaction.evaluated',
    result: isDenied ? 'denied' : 'success',
    metadata: { stage, outcome: decision.outcome, findings, approvals: decision.approvals },
  });
  if (!isDenied) return;
  const { violations } = decision;
  const data = { transaction_id: row.id, agent_id: row.agent_id, ...violations[0], violations };
  await insertEvent(db, { ...about, type: 'policy.violated', data });
}

/**
 * Asks every person that the decision names and that was not asked yet. A question to others than the policy names now
 * is withdrawn and asked anew, also when it was answered: who was struck off decides nothing any more.
 */
export async function askPeople(
  db: Queryable,
  row: TransactionRow,
  { decision, now }: { decision: Decision; now: Date },
): Promise<void> {
  const standing = await approvalsOfPayment(db, { paymentId: row.id });
  for (const demand of decision.approvals) {
    const asked = standing.find(
      ({ policy_id, status }) => policy_id === demand.policy_id && (status === 'pending' || status === 'approved'),
    );
    if (asked && (isAgreed(asked, demand) || (asked.status === 'pending' && stillAsks(asked, demand)))) continue;
    if (asked) await withdrawApproval(db, { id: asked.id });
    await ask(db, row, { demand, now });
  }
}

async function ask(
  db: Queryable,
  row: TransactionRow,
  { demand, now }: { demand: ApprovalDemand; now: Date },
): Promise<void> {
  const { account_id: accountId, agent_id: agentId, id: transactionId } = row;
  const asked = await insertApproval(db, { accountId, agentId, paymentId: transactionId, demand, now });
  if (!asked) return;
  await insertApprovalMails(db, { approvalId: asked.id, approvers: asked.approvers });
  await noteApproval(db, { id: asked.id, type: 'approval.requested' });
}

/** Tells the receivers of events what became of a question, with the question as it is now. */
export async function noteApproval(
  db: Queryable,
  { id, type }: { id: string; type: 'approval.requested' | 'approval.expired' },
): Promise<void> {
  const approval = (await getApproval(db, { id }))!;
  await insertEvent(db, {
    accountId: approval.account_id,
    agentId: approval.agent_id,
    type,
    resourceType: 'approval',
    resourceId: id,
    data: renderApproval(approval),
  });
}

async function firstStepLeft(db: Queryable, transactionId: string) {
  const outcome = 'allowed' as const;
  if ((await findAttempts(db, { transactionId })).length > 0) return { outcome, resume: 'watch' as const };
  return { outcome, resume: (await findSlot(db, { transactionId })) ? ('sign' as const) : ('prepare' as const) };
}

/** How long the question that expires first still stands, if one is open. */
async function timeToAnswer(db: Queryable, row: TransactionRow, clock: Clock): Promise<{ answerWithinMs?: number }> {
  if (row.status_detail !== 'awaiting_approval') return {};
  const pending = (await approvalsOfPayment(db, { paymentId: row.id })).find(({ status }) => status === 'pending');
  if (!pending) return {};
  return { answerWithinMs: Math.max(1, pending.expires_at.getTime() - (await clock(db)).getTime()) };
}

export function denialFailure(decision: Decision) {
  return { code: 'policy_violation', message: explainViolation(decision.violations[0]!) } as const;
}
