import type { ApprovalRow } from '../../shared/db/approvals.ts';
import { PurserError } from '../../shared/errors.ts';
import { paymentOf } from '../../shared/render-approval.ts';
import type { Refusal } from './decide-approval.ts';

/** Says why an answer to a question was not taken, and how the question stands. */
export function answerRefusal({ refusal, approval }: Refusal, { approver }: { approver: string }): PurserError {
  const details = detailsOf(approval);
  switch (refusal) {
    case 'not_approver':
      return new PurserError('insufficient_permissions', `${approver} is not asked to approve ${approval.id}.`);
    case 'expired':
      return new PurserError(
        'approval_timeout',
        `Approval ${approval.id} expired at ${approval.expires_at.toISOString()}: nothing can be decided any more.`,
        { details },
      );
    case 'already_decided':
      return new PurserError('approval_already_decided', alreadyDecided(approval), { details });
    case 'decided_before': {
      const own = approval.decisions.find((each) => each.approver === approver);
      const message = `${approver} has ${own?.decision} ${approval.id} at ${own?.decided_at} already; others have yet to decide.`;
      return new PurserError('approval_already_decided', message, { details });
    }
    case 'not_yet':
      throw new Error(`A decision of ${approval.id} was refused as if it were its timer's.`);
  }
}

function alreadyDecided({ id, status, decisions, decided_at }: ApprovalRow): string {
  if (status === 'cancelled')
    return `Approval ${id} was withdrawn at ${decided_at?.toISOString()}: it is not needed any more.`;
  const last = decisions.at(-1);
  return `Approval ${id} is ${status} already: by ${last?.approver} at ${last?.decided_at}.`;
}

function detailsOf(approval: ApprovalRow) {
  return {
    approval_id: approval.id,
    ...paymentOf(approval.payment_id),
    status: approval.status,
    decisions: approval.decisions.map(({ approver, decision, decided_at }) => ({ approver, decision, decided_at })),
    expires_at: approval.expires_at.toISOString(),
    decided_at: approval.decided_at?.toISOString() ?? null,
  };
}
