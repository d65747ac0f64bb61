import { lockAgent } from '../../shared/db/agents.ts';
import { takeApprovalLink } from '../../shared/db/approval-links.ts';
import { getApproval, lockApproval, moveApproval, type ShownApproval } from '../../shared/db/approvals.ts';
import { type Acting, byOperator, insertAudit } from '../../shared/db/audit.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { insertEvent } from '../../shared/db/events.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import { type ApprovalRefusal, advanceApproval } from '../../shared/domain/approval.ts';
import { paymentOf, renderApproval } from '../../shared/render-approval.ts';
import { type Once, unkeyed } from '../idempotency.ts';

/** One person's answer to one question. */
export interface Answer {
  readonly approvalId: string;
  readonly agentId: string;
  /** E-mail address in lower case, proven by whoever calls. */
  readonly approver: string;
  readonly decision: 'approved' | 'rejected';
  readonly note: string | null;
}

/** The door through which the answer came. */
export type Door =
  /** A person who is signed in. */
  | { readonly via: 'bearer'; readonly acting: Acting }
  /** The link in a mail; it is used up with the decision. */
  | { readonly via: 'link'; readonly tokenHash: Buffer; readonly origin: Omit<Acting, 'actor'> }
  /** An operator at the console, for the approver; `operator` is the user there. */
  | { readonly via: 'operator'; readonly operator: string };

/** Why nothing was decided, and what stood in the way. */
export interface Refusal {
  readonly refusal: ApprovalRefusal;
  readonly approval: ShownApproval;
}

export interface DecideDependencies {
  readonly pool: Pool;
  /** Tells the payment's workflow that there is something to read; whether it hears does not matter. */
  readonly tellAnswer: (paymentId: string, decision: 'approved' | 'rejected') => Promise<void>;
}

/**
 * Decides questions of one payment, all or none, in one database transaction with their events and audit entries; then
 * tells the workflow. Every door comes through here. With a key, whose answer is the first question, a repeat decides
 * nothing.
 * @returns for each what it is now; or, with the first that was refused, why nothing was decided
 */
export async function decideApprovals(
  { pool, tellAnswer }: DecideDependencies,
  { answers, door, once = unkeyed }: { answers: readonly [Answer, ...Answer[]]; door: Door; once?: Once },
): Promise<{ readonly approvals: readonly ShownApproval[] } | Refusal> {
  try {
    const approvals = await inTransaction(pool, async (db) => {
      await once.claim(db, { resourceId: answers[0].approvalId });
      const decided: ShownApproval[] = [];
      for (const answer of answers) decided.push(await decideOne(db, { answer, door }));
      await once.answer(db, renderApproval(decided[0]!));
      return decided;
    });
    if (approvals.some(({ status }) => status !== 'pending'))
      await tellAnswer(approvals[0]!.payment_id, answers[0].decision);
    return { approvals };
  } catch (error) {
    if (error instanceof Refused) return error.why;
    throw error;
  }
}

/** Ends the database transaction without effect. */
class Refused extends Error {
  readonly why: Refusal;
  constructor(why: Refusal) {
    super(why.refusal);
    this.why = why;
  }
}

async function decideOne(
  db: Queryable,
  { answer: { approvalId, agentId, approver, decision, note }, door }: { answer: Answer; door: Door },
): Promise<ShownApproval> {
  await lockAgent(db, { id: agentId });
  const seen = await lockApproval(db, { id: approvalId });
  if (!seen) throw new Error(`Approval ${approvalId} has gone.`);
  const now = await databaseClock(db);
  const next = advanceApproval(seen, { kind: 'decide', approver, decision, note }, now);
  if ('refusal' in next) throw new Refused({ ...next, approval: (await getApproval(db, { id: approvalId }))! });
  const before = renderApproval((await getApproval(db, { id: approvalId }))!);
  if (!(await moveApproval(db, { seen, ...next, now })))
    throw new Error(`Approval ${approvalId} moved under its lock.`);
  if (door.via === 'link') await takeApprovalLink(db, { tokenHash: door.tokenHash });
  const approval = (await getApproval(db, { id: approvalId }))!;
  const about = {
    accountId: approval.account_id,
    agentId: approval.agent_id,
    resourceType: 'approval' as const,
    resourceId: approval.id,
  };
  await insertAudit(db, {
    ...about,
    action: `approval.${decision}`,
    acting: actingBy(door, { approver }),
    result: 'success',
    changes: { before, after: renderApproval(approval) },
    metadata: {
      ...paymentOf(approval.payment_id),
      status: approval.status,
      approver,
      note,
      via: door.via,
      ...(door.via === 'bearer' && { user_id: door.acting.actor.id }),
      ...(door.via === 'operator' && { operator: door.operator }),
    },
  });
  // One event a transition: an approval that others have to join is no transition yet.
  if (next.status === 'approved' || next.status === 'rejected')
    await insertEvent(db, { ...about, type: `approval.${next.status}`, data: renderApproval(approval) });
  return approval;
}

/** Whoever decides is the approver, by whichever door; but an operator, who decides in their place. */
function actingBy(door: Door, { approver }: { approver: string }): Acting {
  switch (door.via) {
    case 'operator':
      return byOperator(door.operator);
    case 'bearer':
      return { ...door.acting, actor: { type: 'approver', id: approver, name: null } };
    case 'link':
      return { ...door.origin, actor: { type: 'approver', id: approver, name: null } };
  }
}
