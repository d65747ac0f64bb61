import type { Hex } from 'viem';
import type { Logger } from '../../log.ts';
import type { ChainAdapter } from '../adapter.ts';
import type { EndpointWatch } from '../endpoints/endpoint-watch.ts';
import type { Chain } from '../registry.ts';
import { agreedInclusions } from './agreed-inclusions.ts';
import { authorizationEvents, authorizationStanding } from './authorizations.ts';
import { balances } from './balance.ts';
import { blocks, head } from './blocks.ts';
import { evmChainId } from './chain-id.ts';
import { createEvmClient } from './client.ts';
import { inclusions } from './inclusions.ts';
import { evmParameters } from './parameters.ts';
import { prepareTransfer } from './prepare-transfer.ts';
import type { EvmPrepared, EvmReplacementTerms } from './prepared.ts';
import { replacementTerms } from './replacement-terms.ts';
import { ask } from './rpc.ts';
import { send } from './send.ts';
import { slotOwner } from './slot-owner.ts';
import { transferFee } from './transfer-fee.ts';

/**
 * An EVM chain behind the interface that all families share.
 * @param urls RPC endpoints in the order in which they are asked while they do equally well. With two, both must agree
 *   before a payment is final; with three or more, most of them
 * @param maxFeePerGasCeilingWei default, as of `speedUpAfterBlocks`: the chain's own, see parameters.ts
 */
export function createEvmAdapter({
  chain,
  urls,
  maxFeePerGasCeilingWei,
  speedUpAfterBlocks,
  logger,
  watch,
}: {
  chain: Chain;
  urls: readonly string[];
  maxFeePerGasCeilingWei?: bigint | undefined;
  speedUpAfterBlocks?: number | undefined;
  logger?: Logger | undefined;
  watch?: EndpointWatch | undefined;
}): ChainAdapter<EvmPrepared, EvmReplacementTerms> {
  const parameters = evmParameters[chain.id];
  if (!parameters) throw new Error(`Chain ${chain.id} has no parameters.`);
  if (urls.length === 2 && chain.network === 'mainnet')
    logger?.warn(
      { chain: chain.id },
      'with two endpoints both must agree before a payment is final: name three or more',
    );
  const ceilingWei = maxFeePerGasCeilingWei ?? parameters.maxFeePerGasCeilingWei;
  const client = createEvmClient({ urls, chainId: evmChainId(chain.id), logger, watch });
  return {
    chain,
    pollMs: parameters.pollMs,
    speedUpAfterBlocks: speedUpAfterBlocks ?? parameters.speedUpAfterBlocks,
    prepare: (transfer) => prepareTransfer(client, { ...transfer, chain, maxFeePerGasCeilingWei: ceilingWei }),
    replacementTerms: ({ owner }) => replacementTerms(client, { owner, ceilingWei }),
    balances: ({ owner }) => balances(client, { owner, tokens: chain.tokens }),
    transferFee: () => transferFee(client, { ceilingWei }),
    send: ({ raw }) => send(client, { raw }),
    head: () => head(client),
    blocks: ({ numbers }) => blocks(client, { numbers }),
    inclusions: ({ hashes }) => inclusions(client, { hashes }),
    agreedInclusions: ({ placed }) => agreedInclusions(client, { placed }),
    knows: async ({ hash }) =>
      (await ask(client.request({ method: 'eth_getTransactionByHash', params: [hash as Hex] }))) !== null,
    slotOwner: ({ raw }) => slotOwner(client, { raw, confirmations: chain.confirmations }),
    isExpired: async () => false,
    authorizationEvents: (range) => authorizationEvents(client, range),
    authorizationStanding: (slot) => authorizationStanding(client, { slot, confirmations: chain.confirmations }),
  };
}
