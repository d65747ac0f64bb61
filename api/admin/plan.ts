import { z } from 'zod';
import { byOperator } from '../../shared/db/audit.ts';
import { plans } from '../../shared/domain/plans.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { setPlan } from '../operations/set-account.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';
import { accountOption } from './options.ts';

/** More than anybody asks, and less than the column holds. */
const maxLimit = 1_000_000_000;

/** A limit of its own; null for none; undefined leaves what there is. */
function limitOption(option: string) {
  const error = `${option} must be a whole number from 1 to ${maxLimit}, or none.`;
  return z
    .string()
    .refine((text) => text === 'none' || (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= maxLimit), { error })
    .transform((text) => (text === 'none' ? null : Number(text)))
    .optional();
}

const options = z
  .object({
    account: accountOption(),
    plan: z.enum(plans, { error: `--plan must be one of ${plans.join(', ')}.` }),
    'per-minute': limitOption('--per-minute'),
    'per-day': limitOption('--per-day'),
    concurrent: limitOption('--concurrent'),
  })
  .superRefine(({ account: _account, plan, ...own }, context) => {
    const given = Object.entries(own).find(([, value]) => value !== undefined);
    if (plan === 'enterprise' || !given) return;
    const message = `--${given[0]} is for the plan enterprise only: what ${plan} may is the same for everybody.`;
    context.addIssue({ code: 'custom', message });
  });

export const planCommands: Commands = {
  'plan set': {
    options: {
      account: 'acct_…',
      plan: plans.join('|'),
      'per-minute': 'N|none',
      'per-day': 'N|none',
      concurrent: 'N|none',
    },
    required: ['account', 'plan'],
    prepare(values) {
      const { account: id, plan, concurrent, ...own } = options.parse(values);
      // Limits of its own go with the plan that has them.
      const none = { requests_per_minute: null, requests_per_day: null, concurrent_requests: null };
      const given = {
        requests_per_minute: own['per-minute'],
        requests_per_day: own['per-day'],
        concurrent_requests: concurrent,
      };
      const change = { plan, ...(plan === 'enterprise' ? given : none) };
      return async ({ pool }) => {
        const account = await setPlan(pool, { id, change, acting: byOperator(operatorName()) });
        if (!account) throw new UsageError(`There is no account ${id}.`);
        const { plan, limits } = renderAccount(account);
        return { account_id: id, plan, limits };
      };
    },
  },
};
