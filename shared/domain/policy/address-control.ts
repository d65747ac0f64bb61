import type { z } from 'zod';
import { listInWords } from './list-in-words.ts';
import { listOfOnes, rulesOf } from './rule-fields.ts';
import type { Check, PolicyKind } from './types.ts';

interface AddressControlRules {
  readonly allowed_addresses?: readonly string[] | undefined;
  readonly blocked_addresses?: readonly string[] | undefined;
}

/** Says who may be paid, and who may not. */
export const addressControl: PolicyKind<AddressControlRules> = {
  description: 'Addresses that alone may be paid, and addresses that may never be paid; at least one of the lists.',
  rules: (words) =>
    rulesOf(
      {
        allowed_addresses: listOfOnes(words.address, { description: 'Only these may be paid.' }).optional(),
        blocked_addresses: listOfOnes(words.address, { description: 'These may never be paid.' }).optional(),
      },
      refuseContradictions,
    ),
  windowsMs: () => [],
  // Both were brought into the one form that their chain has when they were written: equal addresses are equal text.
  judge({ allowed_addresses: allowed, blocked_addresses: blocked }, { payment: { toAddress } }) {
    return {
      checks: [
        ...(blocked ? [checkOf('blocked_addresses', blocked, toAddress, !blocked.includes(toAddress))] : []),
        ...(allowed ? [checkOf('allowed_addresses', allowed, toAddress, allowed.includes(toAddress))] : []),
      ],
    };
  },
  explain: ({ policy_id, rule, attempted }) =>
    rule === 'blocked_addresses'
      ? `${attempted} may not be paid: it is in blocked_addresses of policy ${policy_id}.`
      : `${attempted} may not be paid: it is not in allowed_addresses of policy ${policy_id}.`,
};

function refuseContradictions(rules: AddressControlRules, context: z.RefinementCtx): void {
  const { allowed_addresses: allowed, blocked_addresses: blocked } = rules;
  if (!allowed && !blocked)
    context.addIssue({ code: 'custom', message: 'must have allowed_addresses, blocked_addresses, or both.' });
  const index = allowed && blocked ? indexOfShared(allowed, blocked) : -1;
  if (index >= 0)
    context.addIssue({
      code: 'custom',
      path: ['blocked_addresses', index],
      message: 'is in allowed_addresses too. Leave it in one of the lists.',
    });
}

/** Index of the first of `list` that is in `others` too, or -1. */
function indexOfShared(others: readonly string[], list: readonly string[]): number {
  const known = new Set(others);
  return list.findIndex((each) => known.has(each));
}

function checkOf(rule: string, list: readonly string[], attempted: string, passed: boolean): Check {
  return { rule, limit: listInWords(list), attempted, used: null, remaining: null, resets_at: null, passed };
}
