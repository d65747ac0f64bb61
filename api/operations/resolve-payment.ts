import { familyOf } from '../../shared/chain/families.ts';
import type { Chain, Registry, Token } from '../../shared/chain/registry.ts';
import type { AgentRow } from '../../shared/db/agents.ts';
import type { NewTransaction } from '../../shared/db/transactions.ts';
import { PurserError } from '../../shared/errors.ts';
import { requireAmount, requireToken } from '../require-amount.ts';
import { requireAgentChain } from '../require-chain.ts';
import type { CreateTransactionBody } from '../schemas/transactions.ts';

/** What a request means on its chain. */
export type ResolvedPayment = Pick<
  NewTransaction,
  'chain' | 'token' | 'asset' | 'decimals' | 'amountMinor' | 'fromAddress' | 'toAddress' | 'memo'
>;

/**
 * Gives a request's words their values: which chain, which token, how many minor units, from where to where. Pure.
 * @throws PurserError 400 naming the member that has none
 */
export function resolvePayment(
  registry: Registry,
  { agent, body }: { agent: AgentRow; body: CreateTransactionBody },
): ResolvedPayment {
  const chain = requireAgentChain(registry, { id: body.chain, agent });
  const token = requireToken(registry, { chain, symbol: body.token });
  return {
    chain: chain.id,
    token: token.symbol,
    asset: token.asset,
    decimals: token.decimals,
    amountMinor: requireAmount(body.amount, { token, param: 'amount' }),
    fromAddress: requireSender(body.from_address, { agent, chain }),
    toAddress: requireRecipient(body.to_address, { agent, chain, token }),
    memo: body.memo,
  };
}

function requireSender(given: string | undefined, { agent, chain }: { agent: AgentRow; chain: Chain }): string {
  if (given === undefined || requireAddress(given, { chain, param: 'from_address' }) === agent.address)
    return agent.address;
  throw new PurserError(
    'invalid_address',
    `from_address must be ${agent.address}, the wallet of ${agent.id}. Or leave it out.`,
    {
      param: 'from_address',
    },
  );
}

function requireRecipient(
  given: string,
  { agent, chain, token }: { agent: AgentRow; chain: Chain; token: Token },
): string {
  const param = 'to_address';
  const address = requireAddress(given, { chain, param });
  const refuse = (why: string) => new PurserError('invalid_address', `${param} is ${why}`, { param });
  if (address === token.asset) throw refuse(`the contract of ${token.symbol} itself: what is sent there is lost.`);
  const { selfPayment } = familyOf(chain.id);
  if (address === agent.address && selfPayment !== undefined)
    throw refuse(`the wallet of ${agent.id} itself, which cannot pay itself. ${selfPayment}`);
  return address;
}

function requireAddress(text: string, { chain, param }: { chain: Chain; param: string }): string {
  const read = familyOf(chain.id).readAddress(text, chain.id);
  if ('address' in read) return read.address;
  throw new PurserError('invalid_address', `${param} ${read.sentence}`, { param });
}
