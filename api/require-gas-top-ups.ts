import type { Registry } from '../shared/chain/registry.ts';
import { sharesWallet } from '../shared/chain/shares-wallet.ts';
import { findAgent } from '../shared/db/agents.ts';
import type { Queryable } from '../shared/db/pool.ts';
import type { GasTopUp } from '../shared/domain/gas.ts';
import { formatAmount } from '../shared/domain/money.ts';
import { PurserError } from '../shared/errors.ts';
import { isId } from '../shared/ids.ts';
import { requireAmount } from './require-amount.ts';

/**
 * Who is to fill up wallets, if that can be done: each chain is served and has tokens, and the agent has a wallet there.
 * @returns the same with amounts in their one written form
 * @throws PurserError 400 naming the member that is wrong
 */
export async function requireGasTopUps(
  db: Queryable,
  registry: Registry,
  { accountId, given }: { accountId: string; given: readonly GasTopUp[] },
): Promise<GasTopUp[]> {
  const found: GasTopUp[] = [];
  for (const [index, each] of given.entries()) {
    const at = (member: keyof GasTopUp) => `gas_top_ups.${index}.${member}`;
    const refuse = (code: 'invalid_request' | 'invalid_chain', member: keyof GasTopUp, sentence: string) =>
      new PurserError(code, `${at(member)} ${sentence}`, { param: at(member) });
    const chain = registry.chain(each.chain);
    if (!chain) {
      const served = registry.chains.map(({ id }) => id).join(', ');
      throw refuse('invalid_chain', 'chain', `is not served here. Served are: ${served}.`);
    }
    const [native, ...tokens] = chain.tokens;
    if (tokens.length === 0)
      throw refuse('invalid_chain', 'chain', 'has no tokens: a payment there pays its fee out of the coins it sends.');
    const id = each.funding_agent_id;
    const agent = isId('agent', id) ? await findAgent(db, { id, accountId }) : undefined;
    if (!agent) throw refuse('invalid_request', 'funding_agent_id', 'is no agent of this account.');
    if (!sharesWallet(chain.id, agent.chain))
      throw refuse('invalid_chain', 'chain', `is none on which ${id} has a wallet; it has one on ${agent.chain}.`);
    const amountMinor = requireAmount(each.amount, { token: native!, param: at('amount') });
    found.push({ ...each, amount: formatAmount(amountMinor, native!.decimals) });
  }
  return found;
}
