import type { ShownApproval } from '../shared/db/approvals.ts';
import { groupDigits } from '../shared/domain/group-digits.ts';
import { formatAmount } from '../shared/domain/money.ts';
import { inertText } from './inert-text.ts';
import { mailHtml } from './mail-html.ts';
import { type MailWords, mailText } from './mail-text.ts';

export interface ApprovalMail {
  /** ASCII and no-break spaces; no text of a user's. */
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/**
 * The mail that asks one approver. It holds one link, and nothing else that a mail program could make one of. The memo is
 * left to the page: it is free text of whoever asked for the payment.
 * @param link the page, with the approver's token
 * @param chainName as people know the chain
 */
export function renderApprovalMail({
  approval,
  approver,
  link,
  chainName,
  now,
}: {
  approval: ShownApproval;
  approver: string;
  link: string;
  chainName: string;
  now: Date;
}): ApprovalMail {
  const { token } = approval;
  const amount = `${groupDigits(formatAmount(BigInt(approval.amount_minor), approval.decimals))}\u00a0${token}`;
  const threshold = `${groupDigits(approval.threshold)}\u00a0${token}`;
  const words: MailWords = {
    title: 'A payment waits for your decision',
    amount,
    facts: [
      { label: 'To', value: approval.to_address, isCode: true },
      { label: 'Chain', value: `${chainName} (${approval.chain})` },
      { label: 'Agent', value: inertText(approval.agent_name) },
      { label: 'Account', value: inertText(approval.account_name) },
      { label: 'Until', value: `${inWords(approval.expires_at)} (in ${timeLeft(approval.expires_at, now)})` },
      { label: 'Why', value: `It is more than ${threshold}, the threshold of policy ${approval.policy_id}.` },
      { label: 'Needed', value: needed(approval) },
    ],
    link: { words: 'Look at it and decide', url: link },
    notes: [
      'Opening the page decides nothing: only its buttons Approve and Reject do.',
      `This mail is meant for ${inertText(approver)} alone. Whoever has the link can decide in your name: do not forward it.`,
    ],
  };
  const subject = `Your approval is needed: ${amount} on ${chainName}`;
  return { subject, text: mailText(words), html: mailHtml(words) };
}

/** @example 'one of 2 people asked; 1 has agreed. One rejection ends it.' */
function needed({ required_approvals: required, approvers, decisions }: ShownApproval): string {
  const asked = approvers.length;
  if (asked === 1) return 'You alone are asked.';
  const who = required === asked ? `all ${asked}` : `${required === 1 ? 'one' : required} of ${asked}`;
  const agreed = decisions.length === 0 ? '' : ` ${decisions.length} agreed so far.`;
  return `Approval by ${who} people who are asked.${agreed} One rejection ends it.`;
}

const calendar = new Intl.DateTimeFormat('en-GB', {
  ...{ weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' },
  ...{ hour: '2-digit', minute: '2-digit', timeZone: 'UTC' },
});
/** @example 'Saturday 28 November 2026 at 08:05 UTC' */
const inWords = (date: Date) => `${calendar.format(date)} UTC`;

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** Rounded down, in the largest unit of which there are at least two: '59 minutes', '47 hours', '2 days'. */
function timeLeft(until: Date, now: Date): string {
  const leftMs = until.getTime() - now.getTime();
  const [unit, ms] = units.find(([, each]) => leftMs >= 2 * each) ?? units[2];
  const count = Math.floor(leftMs / ms);
  if (count < 1) return 'less than a minute';
  return count === 1 ? `1 ${unit}` : `${count} ${unit}s`;
}
