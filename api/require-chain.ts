import type { Chain, Registry } from '../shared/chain/registry.ts';
import { sharesWallet } from '../shared/chain/shares-wallet.ts';
import type { AgentRow } from '../shared/db/agents.ts';
import { PurserError } from '../shared/errors.ts';

/** The chain that a request names. @throws PurserError 400 `invalid_chain` */
export function requireChain(registry: Registry, { id }: { id: string }): Chain {
  const chain = registry.chain(id);
  if (chain) return chain;
  const served = registry.chains.map((each) => each.id).join(', ');
  throw new PurserError('invalid_chain', `chain ${JSON.stringify(id)} is not served here. Served are: ${served}.`, {
    param: 'chain',
  });
}

/**
 * The same for an agent that is to pay there: on the chain that it was made for, or another one where its wallet has the
 * same address.
 * @throws PurserError 400 `invalid_chain`
 */
export function requireAgentChain(registry: Registry, { id, agent }: { id: string; agent: AgentRow }): Chain {
  const chain = requireChain(registry, { id });
  if (sharesWallet(chain.id, agent.chain)) return chain;
  throw new PurserError(
    'invalid_chain',
    `Agent ${agent.id} has a wallet on ${agent.chain}; it cannot pay on ${chain.id}.`,
    { param: 'chain' },
  );
}
