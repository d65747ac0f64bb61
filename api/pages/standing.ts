import type { ShownApproval } from '../../shared/db/approvals.ts';
import type { ApprovalDecision } from '../../shared/domain/approval.ts';

/** A question as its page shows it to one approver. */
export interface Asked {
  readonly approval: ShownApproval;
  /** To whom the link was sent. */
  readonly approver: string;
  /** The chain's name and kind; undefined where this installation serves it no more. */
  readonly chain: { readonly name: string; readonly network: 'mainnet' | 'testnet' | 'local' } | undefined;
  readonly now: Date;
}

/** How one approver stands to a question. */
export type Standing =
  /** This person can decide now. */
  | 'asked'
  /** Has approved, and others must as well. */
  | 'waiting'
  | 'approved'
  | 'rejected'
  | 'expired'
  | 'withdrawn'
  /** Is not among those who decide. */
  | 'not_approver';

export function standingOf({ approval, approver }: Pick<Asked, 'approval' | 'approver'>): Standing {
  if (!approval.approvers.includes(approver)) return 'not_approver';
  switch (approval.status) {
    case 'pending':
      return ownDecision({ approval, approver }) ? 'waiting' : 'asked';
    case 'cancelled':
      return 'withdrawn';
    default:
      return approval.status;
  }
}

export function ownDecision({
  approval,
  approver,
}: Pick<Asked, 'approval' | 'approver'>): ApprovalDecision | undefined {
  return approval.decisions.find((each) => each.approver === approver);
}

export const approvalsGiven = ({ decisions }: ShownApproval): number =>
  decisions.filter(({ decision }) => decision === 'approved').length;
