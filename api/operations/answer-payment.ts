import type { ApprovalRow } from '../../shared/db/approvals.ts';

/**
 * The questions of a payment that an answer to the payment as a whole decides: all that are open, put to this person,
 * and not answered by them. Where there is none, the one whose refusal tells most.
 * @param asked those that are put to this person, the first to expire first
 */
export function questionsToAnswer(
  asked: readonly [ApprovalRow, ...ApprovalRow[]],
  { approver }: { approver: string },
): readonly [ApprovalRow, ...ApprovalRow[]] {
  const open = asked.filter(({ status }) => status === 'pending');
  const [first, ...others] = open.filter(({ decisions }) => decisions.every((each) => each.approver !== approver));
  if (first) return [first, ...others];
  const newest = asked.reduce((one, other) => (other.created_at > one.created_at ? other : one));
  return [open[0] ?? newest];
}
