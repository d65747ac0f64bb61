import { familyOf } from '../../shared/chain/families.ts';
import type { AgentRow } from '../../shared/db/agents.ts';
import type { Logger } from '../../shared/log.ts';
import { type AgentBalance, type AgentBalancesDependencies, agentBalances } from './agent-balances.ts';

/** Money in a wallet, and tokens of which nobody can say how much there is. */
export interface WorthKeeping {
  readonly balances: readonly { readonly chain: string; readonly token: string; readonly amount: string }[];
  readonly unreadable: readonly { readonly chain: string; readonly token: string; readonly error: string }[];
}

/**
 * What would be lost with an agent: every balance on every chain on which it can pay, but for a rest of the chain's own
 * coin that could not pay for its own transfer.
 * @throws PurserError 503 when no worker that reaches the chains answers
 */
export async function worthKeeping(
  deps: AgentBalancesDependencies,
  { agent, log }: { agent: AgentRow; log: Logger },
): Promise<WorthKeeping> {
  const { registry } = deps;
  if (!registry.chain(agent.chain))
    return {
      balances: [],
      unreadable: [{ chain: agent.chain, token: 'any token', error: 'The chain is not served here any more.' }],
    };
  const read = await agentBalances(deps, { agent });
  const judged = await Promise.all(read.map((balance) => judge(deps, { agent, balance, log })));
  return {
    balances: judged.flatMap((one) => (one && 'amount' in one ? [one] : [])),
    unreadable: judged.flatMap((one) => (one && 'error' in one ? [one] : [])),
  };
}

type Kept = WorthKeeping['balances'][number] | WorthKeeping['unreadable'][number];

async function judge(
  { registry, temporal }: AgentBalancesDependencies,
  { agent, balance, log }: { agent: AgentRow; balance: AgentBalance; log: Logger },
): Promise<Kept | undefined> {
  const { chain, token: symbol, amount } = balance;
  if (amount === null) return { chain, token: symbol, error: balance.error ?? 'It cannot be read.' };
  if (amount === '0') return undefined;
  const token = registry.nativeToken(chain);
  if (symbol !== token.symbol) return { chain, token: symbol, amount };
  // The least that can be sent; whatever it says of money includes the fee.
  const amountMinor = familyOf(chain).leastAmountMinor.toString();
  const least = { chain, from: agent.address, to: agent.address, token, amountMinor };
  const quoted = await temporal.quote(least, { log });
  if (!quoted) return { chain, token: symbol, error: `It holds ${amount}, and the fee to move that is not known.` };
  const isDust = quoted.outcome === 'failed' && quoted.code === 'insufficient_funds';
  return isDust ? undefined : { chain, token: symbol, amount };
}
