import { parseUnits } from 'viem';
import type { CrashAgent } from './agents.ts';
import { minorOf, type RoundOutcome, transferOf } from './outcome.ts';
import { type TokenSymbol, tokens } from './plan.ts';
import type { StoredPayment } from './stored.ts';

/** No limit was passed, and none denied what it had room for. */
export function checkLimits({ id, policies }: CrashAgent, { stored, mined, usdcAddress }: RoundOutcome): string[] {
  const problems: string[] = [];
  const rows = stored.filter((row) => row.agent_id === id);
  const denied = rows.filter((row) => row.failure_code === 'policy_violation');
  const transfers = mined
    .get(id)!
    .map((each) => transferOf(each, usdcAddress))
    .filter(({ amount }) => amount > 0n);
  const sum = (wanted: TokenSymbol) =>
    transfers.filter(({ token }) => token === wanted).reduce((total, { amount }) => total + amount, 0n);
  const limits = policies.map((policy) => {
    if (policy.type === 'velocity_control') {
      const { max_count } = policy.rules;
      if (transfers.length > max_count)
        problems.push(`Agent ${id} made ${transfers.length} payments of ${max_count} at most.`);
      return { isReachedBy: () => transfers.length + 1 > max_count };
    }
    const { token, daily_limit } = policy.rules;
    const limit = parseUnits(daily_limit, tokens[token].decimals);
    if (sum(token) > limit)
      problems.push(`Agent ${id} sent ${sum(token)} minor units of ${token}; its limit is ${limit}.`);
    return { isReachedBy: (row: StoredPayment) => row.token === token && sum(token) + minorOf(row) > limit };
  });
  // Room that a payment had taken and gave back when it failed for another reason may have been missed by a third one.
  if (rows.some((row) => row.status === 'failed' && row.failure_code !== 'policy_violation')) return problems;
  for (const row of denied)
    if (!limits.some((limit) => limit.isReachedBy(row)))
      problems.push(`${row.id} was denied (${row.failure_message}), and all its limits had room for it.`);
  return problems;
}
