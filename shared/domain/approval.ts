import type { ApprovalDemand } from './policy/types.ts';

export const approvalStatuses = ['pending', 'approved', 'rejected', 'expired', 'cancelled'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** What one person decided. */
export interface ApprovalDecision {
  readonly approver: string;
  readonly decision: 'approved' | 'rejected';
  readonly note: string | null;
  /** ISO 8601, UTC. */
  readonly decided_at: string;
}

/** What the reducer needs to know of a question. */
export interface ApprovalState {
  readonly status: ApprovalStatus;
  readonly required_approvals: number;
  readonly approvers: readonly string[];
  readonly decisions: readonly ApprovalDecision[];
  readonly expires_at: Date;
}

export type ApprovalStep =
  | {
      readonly kind: 'decide';
      readonly approver: string;
      readonly decision: 'approved' | 'rejected';
      readonly note: string | null;
    }
  /** The timer: its time may be over. */
  | { readonly kind: 'expire' };

/** Why a step changes nothing. */
export type ApprovalRefusal =
  /** The person is not among those who are asked. */
  | 'not_approver'
  /** Over: enough have agreed, somebody has rejected, or the question was withdrawn. */
  | 'already_decided'
  /** The same person has decided before, and the others have not yet. */
  | 'decided_before'
  /** Its time is over. */
  | 'expired'
  /** For the timer: there is time left. */
  | 'not_yet';

/**
 * m of n, for every door: token, link, operator and timer. One rejection rejects; so many approvals as are required,
 * of different people, approve; both only before the question expires, which it does at `expires_at` exactly.
 */
export function advanceApproval(
  state: ApprovalState,
  step: ApprovalStep,
  now: Date,
):
  | { readonly status: ApprovalStatus; readonly decisions: readonly ApprovalDecision[] }
  | { readonly refusal: ApprovalRefusal } {
  if (step.kind === 'decide' && !state.approvers.includes(step.approver)) return { refusal: 'not_approver' };
  if (state.status === 'expired') return { refusal: 'expired' };
  if (state.status !== 'pending') return { refusal: 'already_decided' };
  const isOver = state.expires_at <= now;
  if (step.kind === 'expire')
    return isOver ? { status: 'expired', decisions: state.decisions } : { refusal: 'not_yet' };
  if (isOver) return { refusal: 'expired' };
  const { approver, decision, note } = step;
  if (state.decisions.some((each) => each.approver === approver)) return { refusal: 'decided_before' };
  const decisions = [...state.decisions, { approver, decision, note, decided_at: now.toISOString() }];
  if (decision === 'rejected') return { status: 'rejected', decisions };
  return { status: decisions.length >= state.required_approvals ? 'approved' : 'pending', decisions };
}

/** Whether an open question asks the people whom the policy names now, and as many of them. */
export function stillAsks(
  state: Pick<ApprovalState, 'approvers' | 'required_approvals'>,
  demand: ApprovalDemand,
): boolean {
  const named = new Set(demand.approvers);
  return (
    state.required_approvals === demand.required_approvals &&
    named.size === new Set(state.approvers).size &&
    state.approvers.every((approver) => named.has(approver))
  );
}

/** Whether enough of the people whom the policy names now have agreed: one who was struck off since counts no more. */
export function isAgreed(
  { status, decisions }: Pick<ApprovalState, 'status' | 'decisions'>,
  demand: ApprovalDemand,
): boolean {
  const agreed = decisions.filter(({ approver }) => demand.approvers.includes(approver));
  return status === 'approved' && agreed.length >= demand.required_approvals;
}
