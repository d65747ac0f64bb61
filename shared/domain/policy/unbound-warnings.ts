import { isStablecoin } from './tokens.ts';
import type { PolicyWarning } from './types.ts';

/** Warns when rules that name no token meet one that is not a stablecoin: 100 of it may be worth anything. */
export function unboundWarnings(
  ruleToken: string | undefined,
  paymentToken: string,
): readonly Omit<PolicyWarning, 'policy_id'>[] {
  if (ruleToken !== undefined || isStablecoin(paymentToken)) return [];
  const message = `The limits of this policy name no token, so they were read in ${paymentToken}. Bind them with \`token\`.`;
  return [{ code: 'limit_without_token', message }];
}
