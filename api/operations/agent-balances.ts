import type { Registry } from '../../shared/chain/registry.ts';
import { sharesWallet } from '../../shared/chain/shares-wallet.ts';
import type { AgentRow } from '../../shared/db/agents.ts';
import { heldBy } from '../../shared/db/holds.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import type { ChainBalances } from '../../shared/temporal.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

export interface AgentBalancesDependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: TemporalGateway;
}

/** One token of one chain; amounts are null where the balance could not be read. */
export interface AgentBalance {
  readonly chain: string;
  readonly token: string;
  readonly amount: string | null;
  readonly available: string | null;
  readonly reserved: string | null;
  readonly error?: string;
}

/**
 * What an agent's wallet holds on every chain where it has its address, and what of that is not promised to payments under way.
 * @throws PurserError 503 when no worker that reaches the chains answers
 */
export async function agentBalances(
  { pool, registry, temporal }: AgentBalancesDependencies,
  { agent }: { agent: AgentRow },
): Promise<AgentBalance[]> {
  const chains = registry.chains.map(({ id }) => id).filter((id) => sharesWallet(id, agent.chain));
  const answers = await temporal.balances({ owner: agent.address, chains });
  const all = await Promise.all(answers.map((answer) => balancesOfChain({ pool, registry }, { agent, answer })));
  return all.flat();
}

async function balancesOfChain(
  { pool, registry }: Pick<AgentBalancesDependencies, 'pool' | 'registry'>,
  { agent, answer }: { agent: AgentRow; answer: ChainBalances },
): Promise<AgentBalance[]> {
  const { chain } = answer;
  const unreadable = (token: string, error: string) => ({
    chain,
    token,
    amount: null,
    available: null,
    reserved: null,
    error,
  });
  const tokens = registry.chain(chain)?.tokens ?? [];
  if ('error' in answer) return tokens.map(({ symbol }) => unreadable(symbol, answer.error));
  return Promise.all(
    tokens.map(async ({ symbol, asset, decimals }) => {
      const read = answer.data.find(({ token }) => token === symbol);
      if (!read) return unreadable(symbol, 'The worker that was asked does not know this token.');
      if ('error' in read) return unreadable(symbol, read.error);
      const amount = BigInt(read.amountMinor);
      const held = await heldBy(pool, { walletId: agent.wallet_id, chain, asset, atBlock: answer.atBlock });
      const write = (minor: bigint) => formatAmount(minor, decimals);
      const available = amount > held ? amount - held : 0n;
      return { chain, token: symbol, amount: write(amount), available: write(available), reserved: write(held) };
    }),
  );
}
