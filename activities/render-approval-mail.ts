import type { ShownApproval } from '../shared/db/approvals.ts';
import { groupDigits } from '../shared/domain/group-digits.ts';
import { formatAmount } from '../shared/domain/money.ts';
import { durationInWords, timeInWords } from '../shared/domain/time-in-words.ts';
import { inertText } from './inert-text.ts';
import { mailHtml } from './mail-html.ts';
import { type MailWords, mailText } from './mail-text.ts';

export interface ApprovalMail {
  /** In ASCII; holds no text of a user's. */
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
  const left = durationInWords(approval.expires_at.getTime() - now.getTime());
  const words: MailWords = {
    title: 'A payment waits for your decision',
    amount,
    facts: [
      ...whatFor(approval),
      { label: 'To', value: approval.to_address, isCode: true },
      { label: 'Chain', value: `${chainName} (${approval.chain})` },
      { label: 'Agent', value: inertText(approval.agent_name) },
      { label: 'Account', value: inertText(approval.account_name) },
      { label: 'Until', value: `${timeInWords(approval.expires_at)} (in ${left})` },
      { label: 'Why', value: `It is more than ${threshold}, the threshold of policy ${approval.policy_id}.` },
      { label: 'Needed', value: needed(approval) },
    ],
    link: { words: 'Look at it and decide', url: link },
    notes: [
      'Opening the page decides nothing: only its buttons Approve and Reject do.',
      `This mail is meant for ${inertText(approver)} alone. Whoever has the link can decide in your name: do not forward it.`,
    ],
  };
  const subject = `Your approval is needed: ${amount} on ${chainName}`.replaceAll('\u00a0', ' ');
  return { subject, text: mailText(words), html: mailHtml(words) };
}

/** Longest target that a mail shows, in code points; the page shows all of it. */
const maxTargetLength = 200;

/** What an x402 payment pays for, without the query: that may hold what is for the target alone. */
function whatFor({ target_url }: ShownApproval): MailWords['facts'] {
  if (target_url === null) return [];
  const { origin, pathname } = new URL(target_url);
  const target = [...(pathname === '/' ? origin : `${origin}${pathname}`)];
  const shown = target.length > maxTargetLength ? `${target.slice(0, maxTargetLength).join('')}…` : target.join('');
  return [{ label: 'Pays for', value: inertText(shown) }];
}

/** @example '1 of 2 people who are asked must agree. One rejection ends it.' */
function needed({ required_approvals: required, approvers, decisions }: ShownApproval): string {
  const asked = approvers.length;
  if (asked === 1) return 'One approval; you alone are asked.';
  const agreed = decisions.length === 0 ? '' : ` So far ${decisions.length} agreed.`;
  return `${required} of ${asked} people who are asked must agree.${agreed} One rejection ends it.`;
}
