import { z } from 'zod';
import { familyOf } from '../shared/chain/families.ts';
import { type PolicyType, policyKinds } from '../shared/domain/policy/engine.ts';
import type { RuleWords } from '../shared/domain/policy/types.ts';
import { PurserError } from '../shared/errors.ts';
import { faultOf } from './schemas/common.ts';

/**
 * Refuses rules that name an address which is none on the chain of their agent: they would never meet a payment, or
 * let none pass.
 * @param place how the request names the rules in a sentence, and which member of it is at fault
 * @throws PurserError 400 `invalid_address`
 */
export function requirePayable(
  { type, rules }: { readonly type: PolicyType; readonly rules: unknown },
  {
    agent: { id, chain },
    place,
  }: {
    agent: { readonly id: string; readonly chain: string };
    place: (path: string) => { readonly named: string; readonly param: string };
  },
): void {
  const issues = policyKinds[type].rules(wordsOf(chain)).safeParse(rules).error?.issues ?? [];
  const fault = issues.find((issue) => issue.code === 'custom' && issue.params?.code === 'invalid_address');
  if (!fault) return;
  const { named, param } = place(['rules', ...fault.path].join('.'));
  throw new PurserError('invalid_address', `${named} ${fault.message} Agent ${id} pays on ${chain}.`, { param });
}

/** Addresses of one chain; what tokens are was seen when the rules were written. */
function wordsOf(chain: string): RuleWords {
  const address = z.string().superRefine((value, context) => {
    const read = familyOf(chain).readAddress(value, chain);
    if ('address' in read) return;
    const { error: message, params } = faultOf('invalid_address', read.sentence);
    context.addIssue({ code: 'custom', message, params });
  });
  return { address, token: z.string() };
}
