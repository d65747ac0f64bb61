import { z } from 'zod';
import { formatAmount, toAtoms } from '../money.ts';
import { readAtoms } from './read-atoms.ts';
import { amount, listOfOnes, optionalToken, rulesOf, wholeNumber } from './rule-fields.ts';
import { countedTokens } from './tokens.ts';
import type { PolicyKind } from './types.ts';
import { unboundWarnings } from './unbound-warnings.ts';

const maxApprovers = 50;
/** Longest address that mail servers carry. Source: RFC 5321, 4.5.3.1.3. */
const maxEmailLength = 254;

interface HumanApprovalRules {
  readonly threshold: string;
  readonly approvers: readonly string[];
  readonly timeout_seconds: number;
  readonly required_approvals: number;
  readonly token?: string | undefined;
}

/** Wants people to agree to payments above a threshold; denies nothing itself. */
export const humanApproval: PolicyKind<HumanApprovalRules> = {
  description: 'Payments of more than a threshold wait until people agree, or until the time for that is over.',
  rules: (words) =>
    rulesOf(
      {
        threshold: amount('Larger amounts need a person; `0` sends everything to one.'),
        approvers: listOfOnes(approver, { max: maxApprovers, description: 'Who may agree: e-mail addresses.' }),
        timeout_seconds: wholeNumber({
          min: 60,
          max: 604_800,
          description: 'Seconds after which nobody has agreed, and the payment fails.',
        }).default(3600),
        required_approvals: wholeNumber({
          min: 1,
          max: maxApprovers,
          description: 'How many of the approvers must agree.',
        }).default(1),
        token: optionalToken(words),
      },
      ({ approvers, required_approvals }, context) => {
        if (required_approvals <= approvers.length) return;
        const message = `must be at most ${approvers.length}, the number of different approvers.`;
        context.addIssue({ code: 'custom', path: ['required_approvals'], message });
      },
    ),
  windowsMs: () => [],
  judge({ token, ...demand }, { payment }) {
    if (!countedTokens(token, payment.token)) return { checks: [] };
    const needsPerson = toAtoms(payment.amountMinor, payment.decimals) > readAtoms(demand.threshold);
    const attempted = formatAmount(payment.amountMinor, payment.decimals);
    const uncounted = { used: null, remaining: null, resets_at: null };
    return {
      checks: [{ rule: 'threshold', limit: demand.threshold, attempted, ...uncounted, passed: true }],
      approval: needsPerson ? demand : undefined,
      warnings: unboundWarnings(token, payment.token),
    };
  },
  explain: ({ policy_id, limit, attempted, token }) =>
    `${attempted} ${token} is more than threshold ${limit} of policy ${policy_id}, so that a person must agree.`,
};

const approver = z
  .string()
  .overwrite((value) => value.toLowerCase())
  .refine((value) => value.length <= maxEmailLength && z.regexes.email.test(value), {
    error: 'must be an e-mail address such as "ops@example.com".',
  })
  .meta({ description: 'E-mail address; answered in lower case.', example: 'ops@example.com' });
