import { groupDigits } from '../../shared/domain/group-digits.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import { type Fragment, type Html, html } from './html.ts';
import type { Asked } from './standing.ts';
import { approvalsGiven } from './standing.ts';
import { writeAddress, writeText, writeTime } from './words.ts';

/** Digits and points of an amount that fit a phone in large type. */
const largeTypeLength = 12;

/** What is paid, e.g. `12 500.5` and `USDC`. */
export function amountOf({ approval }: Pick<Asked, 'approval'>): { readonly number: string; readonly unit: string } {
  return {
    number: groupDigits(formatAmount(BigInt(approval.amount_minor), approval.decimals)),
    unit: approval.token,
  };
}

export function largeAmount(asked: Asked): Html {
  const { number, unit } = amountOf(asked);
  return html`<p class="amount${number.length > largeTypeLength && ' long'}">${number} <span class="unit">${unit}</span></p>`;
}

/** Where the money goes, how and from whom: what a person compares with an invoice. */
export function paymentFacts(asked: Asked): Html[] {
  const { approval } = asked;
  return [
    approval.target_url !== null && fact('Pays for', writeText(approval.target_url)),
    fact('To', writeAddress(approval.to_address)),
    fact('Chain', chainOf(asked)),
    fact(
      'Agent',
      html`${writeText(approval.agent_name)}${
        approval.agent_description !== null &&
        approval.agent_description !== '' &&
        html`<br><span class="quiet small">${writeText(approval.agent_description)}</span>`
      }`,
    ),
  ].filter((each) => each !== false);
}

/** Everything else that the decision is about. */
export function questionFacts({ approval }: Asked): Html[] {
  return [
    ...(approval.memo === null || approval.memo === ''
      ? []
      : [
          fact(
            'Memo',
            html`<span class="quiet small">Written by the agent, not checked by anybody:</span>
<blockquote dir="auto">${shortenGaps(approval.memo)}</blockquote>`,
          ),
        ]),
    fact('Paid from', writeAddress(approval.from_address)),
    fact('Account', writeText(approval.account_name)),
    fact(
      'Why you are asked',
      html`${reason(approval)}<br><span class="quiet small">Policy <code>${approval.policy_id}</code></span>`,
    ),
    fact('Approvals', count(approval)),
    fact('Asked', writeTime(approval.created_at)),
  ];
}

export function fact(name: string, value: Fragment): Html {
  return html`<div><dt>${name}</dt><dd>${value}</dd></div>
`;
}

function chainOf({ approval, chain }: Asked): Html {
  const id = html`<code>${approval.chain}</code>`;
  if (!chain) return id;
  const test = chain.network !== 'mainnet' && html` <span class="tag">Test network, no real money</span>`;
  return html`${chain.name} <span class="quiet">(${id})</span>${test}`;
}

function reason({ threshold, token }: Asked['approval']): string {
  if (threshold === '0') return 'Every payment of this agent needs a person’s approval.';
  return `Payments above ${groupDigits(threshold)} ${token} need a person’s approval.`;
}

function count(approval: Asked['approval']): string {
  const { required_approvals: required } = approval;
  const given = approvalsGiven(approval);
  if (required === 1) return 'One approval is enough.';
  return `${given} of ${required} given so far. One rejection stops the payment.`;
}

/** Blank lines in a row are shown as one: an agent must not push the buttons out of sight. */
const shortenGaps = (text: string): string => text.replace(/\n(\s*\n){2,}/g, '\n\n');
