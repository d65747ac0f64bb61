import type { AdapterOptions, ChainAdapter } from '../adapter.ts';
import { absentUntil, expiringOf } from './absence.ts';
import { balances, replacementTerms } from './balances.ts';
import { blocks, head } from './blocks.ts';
import { agreedInclusions, inclusions, knows } from './inclusions.ts';
import { createTronEndpoints } from './node.ts';
import { tronParameters } from './parameters.ts';
import { prepareTransfer } from './prepare-transfer.ts';
import type { TronPrepared } from './prepared.ts';
import { send } from './send.ts';
import { transferFee } from './transfer-fee.ts';

/**
 * A Tron chain behind the interface that all families share, by the HTTP API of full nodes.
 * @param urls in the order in which they are asked while they do equally well; a key of TronGrid may stand before the
 *   `@`. With two, both must agree before a payment is final; with three or more, most of them
 * @param maxFeeSun the most that one payment may cost; default: the chain's own, see parameters.ts
 */
export function createTronAdapter({
  chain,
  urls,
  maxFeeSun,
  logger,
  watch,
}: Omit<AdapterOptions, 'maxFee'> & { maxFeeSun?: bigint | undefined }): ChainAdapter<TronPrepared> {
  const parameters = tronParameters[chain.id];
  if (!parameters) throw new Error(`Chain ${chain.id} has no parameters.`);
  if (urls.length === 2 && chain.network === 'mainnet')
    logger?.warn(
      { chain: chain.id },
      'with two endpoints both must agree before a payment is final: name three or more',
    );
  const ceilingSun = maxFeeSun ?? parameters.maxFeeSun;
  const endpoints = createTronEndpoints({ urls, chain: chain.id, logger, watch });
  return {
    chain,
    pollMs: parameters.pollMs,
    speedUpAfterBlocks: undefined,
    prepare: (transfer, former) =>
      prepareTransfer(endpoints, { ...transfer, chain, ceilingSun, ...(former && { former }) }),
    replacementTerms: (p) => replacementTerms(endpoints, p),
    balances: ({ owner }) => balances(endpoints, { owner, tokens: chain.tokens }),
    transferFee: () => transferFee(endpoints, { ceilingSun }),
    send: (p) => send(endpoints, p),
    head: () => head(endpoints),
    blocks: (p) => blocks(endpoints, p),
    inclusions: (p) => inclusions(endpoints, p),
    agreedInclusions: (p) => agreedInclusions(endpoints, p),
    knows: (p) => knows(endpoints, p),
    // A transaction has no place that another could take.
    slotOwner: async () => undefined,
    isExpired: async (p) => (await absentUntil(endpoints, expiringOf(p))) !== undefined,
    // No token there transfers by an authorisation that the service issues.
    authorizationEvents: async () => undefined,
    authorizationStanding: async () => ({ outcome: 'undecided' }),
  };
}
