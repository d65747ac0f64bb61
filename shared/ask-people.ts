import { insertApprovalMails } from './db/approval-mails.ts';
import { approvalsOfPayment, getApproval, insertApproval, withdrawApproval } from './db/approvals.ts';
import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import { isAgreed, stillAsks } from './domain/approval.ts';
import type { Decision } from './domain/policy/engine.ts';
import type { ApprovalDemand } from './domain/policy/types.ts';
import type { PaymentFacts } from './payment.ts';
import { renderApproval } from './render-approval.ts';

/**
 * Asks every person that the decision names and that was not asked yet. A question to others than the policy names now
 * is withdrawn and asked anew, also when it was answered: who was struck off decides nothing any more.
 * Hold the locks of agent and payment.
 */
export async function askPeople(
  db: Queryable,
  row: PaymentFacts,
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

/**
 * For the second evaluation: has just those asked whom the decision names, and withdraws what it asks no longer.
 * Hold the locks of agent and payment.
 * @returns whether a person still has to agree
 */
export async function askAnew(
  db: Queryable,
  row: PaymentFacts,
  { decision, now }: { decision: Decision; now: Date },
): Promise<boolean> {
  for (const { id, policy_id, status } of await approvalsOfPayment(db, { paymentId: row.id }))
    if (status === 'pending' && !decision.approvals.some((demand) => demand.policy_id === policy_id))
      await withdrawApproval(db, { id });
  await askPeople(db, row, { decision, now });
  const approvals = await approvalsOfPayment(db, { paymentId: row.id });
  return !decision.approvals.every((demand) =>
    approvals.some((approval) => approval.policy_id === demand.policy_id && isAgreed(approval, demand)),
  );
}

async function ask(
  db: Queryable,
  row: PaymentFacts,
  { demand, now }: { demand: ApprovalDemand; now: Date },
): Promise<void> {
  const { account_id: accountId, agent_id: agentId, id: paymentId } = row;
  const asked = await insertApproval(db, { accountId, agentId, paymentId, demand, now });
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
