import { checkAsked } from './check-asked.ts';
import { checkLimits } from './check-limits.ts';
import { checkWallet } from './check-wallet.ts';
import type { RoundOutcome } from './outcome.ts';

/** Everything about a round that must not be, a sentence each; none when all is well. */
export function checkRound(outcome: RoundOutcome): string[] {
  return [
    ...checkAsked(outcome),
    ...outcome.agents.flatMap((agent) => [...checkWallet(agent, outcome), ...checkLimits(agent, outcome)]),
  ];
}
