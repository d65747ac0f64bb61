import { type ApprovalRow, approvalsOfPayment } from '../../shared/db/approvals.ts';
import type { Acting } from '../../shared/db/audit.ts';
import type { Once } from '../idempotency.ts';
import { type Answer, type DecideDependencies, decideApprovals } from './decide-approval.ts';

/** Readings of the questions at most, when others answer them meanwhile. */
const maxTries = 5;

/**
 * Answers, together, every open question of a payment that is put to this person and that they have not answered. A
 * question that somebody answers meanwhile is left out, and the others are tried again.
 * @returns as `decideApprovals`, the question that expires first at the front; undefined if nothing is put to them
 */
export async function answerPayment(
  deps: DecideDependencies,
  {
    paymentId,
    acting,
    once,
    ...answer
  }: { paymentId: string; acting: Acting; once: Once } & Omit<Answer, 'approvalId' | 'agentId'>,
) {
  for (let attempt = 1; ; attempt += 1) {
    const questions = await approvalsOfPayment(deps.pool, { paymentId });
    const asked = questions.filter(({ approvers }) => approvers.includes(answer.approver));
    const open = asked.filter((question) => isOpenTo(question, answer.approver));
    const [first, ...others] = (open.length > 0 ? open : mostTelling(asked)).map((question) => ({
      ...answer,
      approvalId: question.id,
      agentId: question.agent_id,
    }));
    if (!first) return undefined;
    const result = await decideApprovals(deps, { answers: [first, ...others], door: { via: 'bearer', acting }, once });
    const isOvertaken = 'refusal' in result && result.refusal !== 'expired' && open.length > 0;
    if (!isOvertaken || attempt === maxTries) return result;
  }
}

function isOpenTo({ status, decisions }: ApprovalRow, approver: string): boolean {
  return status === 'pending' && decisions.every((each) => each.approver !== approver);
}

/** Where nothing is left to answer: the question whose refusal says best why. */
function mostTelling(asked: readonly ApprovalRow[]): readonly ApprovalRow[] {
  const waiting = asked.find(({ status }) => status === 'pending');
  const newest = asked.toSorted((one, other) => other.created_at.getTime() - one.created_at.getTime())[0];
  return [waiting ?? newest].filter((question) => question !== undefined);
}
