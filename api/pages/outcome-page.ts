import type { ApprovalDecision } from '../../shared/domain/approval.ts';
import { fact, largeAmount, paymentFacts } from './facts.ts';
import { frame } from './frame.ts';
import { type Fragment, type Html, html } from './html.ts';
import { check, clock, cross, dash } from './icons.ts';
import { type Asked, approvalsGiven, ownDecision, type Standing } from './standing.ts';
import { writeEmail, writeText, writeTime } from './words.ts';

interface Outcome {
  readonly mark: Html;
  readonly heading: string;
  readonly lead: readonly Fragment[];
  /** The answer whose note is shown. */
  readonly answer?: ApprovalDecision | undefined;
}

const marks = {
  yes: html`<div class="mark yes">${check}</div>`,
  no: html`<div class="mark no">${cross}</div>`,
  wait: html`<div class="mark wait">${clock}</div>`,
  over: html`<div class="mark over">${dash}</div>`,
};

const outcomes: Readonly<Record<Exclude<Standing, 'asked'>, (asked: Asked) => Outcome>> = {
  waiting(asked) {
    const { required_approvals: required, expires_at: expiresAt } = asked.approval;
    const given = approvalsGiven(asked.approval);
    const missing = required - given;
    return {
      mark: marks.wait,
      heading: `You approved. ${missing === 1 ? 'One more person has' : `${missing} more people have`} to.`,
      lead: [
        `${given} of ${required} approvals are given. Your part is done.`,
        html`The payment waits for the others until ${writeTime(expiresAt)}. If they do not approve it by then, it is not made.`,
      ],
      answer: ownDecision(asked),
    };
  },

  approved(asked) {
    const own = ownDecision(asked);
    const { approval } = asked;
    const others = approvalsGiven(approval) - 1;
    const heading = own
      ? `You${others > 0 ? ` and ${others === 1 ? 'one other person' : `${others} others`}` : ''} approved this payment`
      : 'Others approved this payment';
    return {
      mark: marks.yes,
      heading,
      lead: [
        html`Approved on ${writeTime(approval.decided_at!)}. ${own ? 'Nothing more is needed from you.' : 'Your answer is not needed any more.'}`,
        'Before it is sent, the payment is checked once more against the other rules of its agent.',
      ],
      answer: own,
    };
  },

  rejected(asked) {
    const own = ownDecision(asked);
    const rejection = asked.approval.decisions.find(({ decision }) => decision === 'rejected');
    const isOwn = own?.decision === 'rejected';
    return {
      mark: marks.no,
      heading: isOwn ? 'You rejected this payment' : 'This payment was rejected',
      lead: [
        html`Rejected ${!isOwn && rejection && html`by ${writeEmail(rejection.approver)} `}on ${writeTime(asked.approval.decided_at!)}. The payment is not made.`,
        own?.decision === 'approved' && html`You had approved it on ${writeTime(new Date(own.decided_at))}.`,
      ],
      answer: rejection,
    };
  },

  expired(asked) {
    const own = ownDecision(asked);
    return {
      mark: marks.over,
      heading: 'The time to answer is over',
      lead: [
        html`It ended on ${writeTime(asked.approval.expires_at)}. ${
          asked.approval.required_approvals === 1 ? 'Nobody had approved' : 'Not enough people had approved'
        } the payment by then, so it was not made.`,
        own && html`You had approved it on ${writeTime(new Date(own.decided_at))}.`,
      ],
    };
  },

  withdrawn: (asked) => ({
    mark: marks.over,
    heading: 'There is nothing to decide any more',
    lead: [
      html`This question was withdrawn on ${writeTime(asked.approval.decided_at!)}: either the payment ended for another reason, or the rule that asked you was changed.`,
      'If your answer is still needed, you get a new mail.',
    ],
  }),

  not_approver: (asked) => ({
    mark: marks.over,
    heading: 'You are not asked any more',
    lead: [
      html`${writeEmail(asked.approver)} is not among the people who decide on this payment. Answers from this link do not count.`,
    ],
  }),
};

/**
 * The page after the question: what became of it, and what that means.
 * @param refused an answer came now and changed nothing: the page begins by saying so
 */
export function outcomePage(
  asked: Asked,
  standing: Exclude<Standing, 'asked'>,
  { refused }: { refused: boolean },
): string {
  const { mark, heading, lead, answer } = outcomes[standing](asked);
  const main = html`${
    refused &&
    html`<div class="notice">
<p><strong>Your last answer was not counted.</strong> It came after this:</p>
</div>`
  }
<div class="card">
${mark}
<h1>${heading}</h1>
${lead.filter(Boolean).map(
  (sentence) => html`<p class="lead">${sentence}</p>
`,
)}
${typeof answer?.note === 'string' && html`<blockquote dir="auto">${answer.note}</blockquote>`}
</div>
${
  // Somebody who does not decide is not told about what.
  standing !== 'not_approver' &&
  html`<div class="card">
<p class="quiet small">The payment</p>
${largeAmount(asked)}
<dl>
${paymentFacts(asked)}${fact('Account', writeText(asked.approval.account_name))}</dl>
</div>`
}`;
  return frame({ title: heading, main });
}
