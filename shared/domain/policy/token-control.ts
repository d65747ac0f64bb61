import { listInWords } from './list-in-words.ts';
import { listOfOnes, rulesOf } from './rule-fields.ts';
import type { PolicyKind } from './types.ts';

interface TokenControlRules {
  readonly allowed_tokens: readonly string[];
}

/** Says which tokens may be sent. */
export const tokenControl: PolicyKind<TokenControlRules> = {
  description: 'Tokens that alone may be sent.',
  rules: (words) =>
    rulesOf({ allowed_tokens: listOfOnes(words.token, { description: 'Symbols; only these may be sent.' }) }),
  windowsMs: () => [],
  judge: ({ allowed_tokens: allowed }, { payment: { token } }) => ({
    checks: [
      {
        rule: 'allowed_tokens',
        limit: listInWords(allowed),
        attempted: token,
        used: null,
        remaining: null,
        resets_at: null,
        passed: allowed.some((each) => each.toUpperCase() === token.toUpperCase()),
      },
    ],
  }),
  explain: ({ policy_id, limit, attempted }) =>
    `${attempted} may not be sent: allowed_tokens of policy ${policy_id} ${limit === null ? 'do not have it' : `are ${limit}`}.`,
};
