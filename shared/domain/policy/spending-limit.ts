import { formatAmount, formatAtoms, toAtoms } from '../money.ts';
import { readAtoms } from './read-atoms.ts';
import { resetOf } from './reset-of.ts';
import { limit, optionalToken, rulesOf } from './rule-fields.ts';
import { countedTokens } from './tokens.ts';
import type { Check, PolicyContext, PolicyKind } from './types.ts';
import { unboundWarnings } from './unbound-warnings.ts';

const dayMs = 86_400_000;
/** Rolling windows: no calendar, so that nobody can spend two limits around midnight. */
const windows = { daily_limit: dayMs, monthly_limit: 30 * dayMs } as const;

interface SpendingLimitRules {
  readonly max_transaction_amount?: string | undefined;
  readonly daily_limit?: string | undefined;
  readonly monthly_limit?: string | undefined;
  readonly token?: string | undefined;
}

/** Bounds single payments and what is sent in 24 hours and 30 days; `amount <= limit` passes. */
export const spendingLimit: PolicyKind<SpendingLimitRules> = {
  description: 'Highest amount of a single payment, of 24 hours and of 30 days; at least one of them.',
  rules: (words) =>
    rulesOf(
      {
        max_transaction_amount: limit('Highest amount of a single payment; `amount <= limit` passes.').optional(),
        daily_limit: limit('Highest total of any 24 hours.').optional(),
        monthly_limit: limit('Highest total of any 30 days.').optional(),
        token: optionalToken(words),
      },
      ({ max_transaction_amount, daily_limit, monthly_limit }, context) => {
        if (max_transaction_amount ?? daily_limit ?? monthly_limit) return;
        const message = 'must have at least one of max_transaction_amount, daily_limit, monthly_limit.';
        context.addIssue({ code: 'custom', message });
      },
    ),
  windowsMs: (rules) => Object.entries(windows).flatMap(([rule, ms]) => (rules[rule as WindowRule] ? [ms] : [])),
  judge(rules, context) {
    const tokens = countedTokens(rules.token, context.payment.token);
    if (!tokens) return { checks: [] };
    const checks = [
      ...(rules.max_transaction_amount ? [checkSize(rules.max_transaction_amount, context)] : []),
      ...(Object.keys(windows) as WindowRule[]).flatMap((rule) => {
        const value = rules[rule];
        return value ? [checkWindow({ rule, value, tokens }, context)] : [];
      }),
    ];
    return { checks, warnings: unboundWarnings(rules.token, context.payment.token) };
  },
  explain: ({ policy_id, rule, limit, attempted, used, token }) =>
    used === null
      ? `${attempted} ${token} breaks ${rule} ${limit} of policy ${policy_id}.`
      : `${attempted} ${token} breaks ${rule} ${limit} of policy ${policy_id}: ${used} are used already.`,
};

type WindowRule = keyof typeof windows;

function checkSize(value: string, { payment }: PolicyContext): Check {
  return {
    rule: 'max_transaction_amount',
    limit: value,
    attempted: formatAmount(payment.amountMinor, payment.decimals),
    used: null,
    remaining: null,
    resets_at: null,
    passed: toAtoms(payment.amountMinor, payment.decimals) <= readAtoms(value),
  };
}

function checkWindow(
  { rule, value, tokens }: { rule: WindowRule; value: string; tokens: readonly string[] },
  { payment, usage, now }: PolicyContext,
): Check {
  const windowMs = windows[rule];
  const { atoms: used, oldest } = usage.within(windowMs, tokens);
  const most = readAtoms(value);
  const left = most - used;
  const wanted = toAtoms(payment.amountMinor, payment.decimals);
  return {
    rule,
    limit: value,
    attempted: formatAmount(payment.amountMinor, payment.decimals),
    used: formatAtoms(used),
    remaining: formatAtoms(left > 0n ? left : 0n),
    // An amount that is over the limit by itself never fits, however long one waits.
    resets_at: wanted > most ? null : resetOf({ oldest, windowMs, now }),
    passed: wanted <= left,
  };
}
