import type { Chain, Registry } from '../shared/chain/registry.ts';
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
