import type { AdapterOptions, ChainAdapter } from '../adapter.ts';
import { agreedBlocks, agreedHead } from '../endpoints/agreed-blocks.ts';
import { agreedInclusions } from '../endpoints/agreed-inclusions.ts';
import { inBatches } from '../endpoints/in-batches.ts';
import { ask, createBitcoinClient } from './client.ts';
import { agreedHoldings } from './holdings.ts';
import { bitcoinParameters } from './parameters.ts';
import { prepareTransfer } from './prepare-transfer.ts';
import type { BitcoinPrepared, BitcoinReplacementTerms } from './prepared.ts';
import { createCoinProof } from './prove-coins.ts';
import { inclusionOf, questions } from './questions.ts';
import { marketRate } from './rates.ts';
import { send } from './send.ts';
import { slotOwner } from './slot-owner.ts';

/** Each takes a request of its own, or two, of each server. */
const [transactionsAtOnce, blocksAtOnce] = [16, 8];

/**
 * A Bitcoin chain behind the interface that all families share.
 * @param urls servers of the Esplora HTTP API, in the order in which they are asked while they do equally well. With two,
 *   both must agree before a payment is final; with three or more, most of them
 * @param ceilingSatPerKvb the most satoshis for a thousand virtual bytes; default, as of `speedUpAfterBlocks`: the
 *   chain's own, see parameters.ts
 */
export function createBitcoinAdapter({
  chain,
  urls,
  ceilingSatPerKvb,
  speedUpAfterBlocks,
  logger,
  watch,
}: Omit<AdapterOptions, 'maxFee'> & { ceilingSatPerKvb?: bigint | undefined }): ChainAdapter<
  BitcoinPrepared,
  BitcoinReplacementTerms
> {
  const parameters = bitcoinParameters[chain.id];
  if (!parameters) throw new Error(`Chain ${chain.id} has no parameters.`);
  if (urls.length === 2 && chain.network === 'mainnet')
    logger?.warn(
      { chain: chain.id },
      'with two endpoints both must agree before a payment is final: name three or more',
    );
  const ceiling = ceilingSatPerKvb ?? parameters.ceilingSatPerKvb;
  const client = createBitcoinClient({ urls, chain: chain.id, logger, watch });
  const prove = createCoinProof(client, { chain: chain.id });
  return {
    chain,
    pollMs: parameters.pollMs,
    speedUpAfterBlocks: speedUpAfterBlocks ?? parameters.speedUpAfterBlocks,
    prepare: (transfer) =>
      prepareTransfer(client, { ...transfer, chain, ceilingSatPerKvb: ceiling, rateParameters: parameters, prove }),
    async replacementTerms({ owner, floor }) {
      const [{ atBlock, confirmedSat }, satPerKvb] = await Promise.all([
        agreedHoldings(client, { owner }),
        marketRate(client, parameters),
      ]);
      return {
        satPerKvb: satPerKvb.toString(),
        ceilingSatPerKvb: ceiling.toString(),
        ...(floor !== undefined && { floorSatPerKvb: floor }),
        atBlock,
        nativeBalanceMinor: confirmedSat.toString(),
      };
    },
    async balances({ owner }) {
      const { atBlock, confirmedSat } = await agreedHoldings(client, { owner });
      return { atBlock, data: chain.tokens.map((token) => ({ token, amountMinor: confirmedSat })) };
    },
    // Its fee is paid out of what is sent.
    transferFee: async () => undefined,
    send: ({ raw }) => send(client, { raw }),
    head: () => agreedHead(client, questions),
    blocks: (p) => inBatches(p.numbers, blocksAtOnce, (numbers) => agreedBlocks(client, questions, { numbers })),
    async inclusions({ hashes }) {
      const found = await inBatches(hashes, transactionsAtOnce, (batch) =>
        Promise.all(batch.map((hash) => ask(client, (backend) => backend.transaction(hash)))),
      );
      return found.flatMap((each) => inclusionOf(each) ?? []);
    },
    agreedInclusions: (p) =>
      inBatches(p.placed, transactionsAtOnce, (placed) => agreedInclusions(client, questions, { placed })),
    knows: async ({ hash }) => (await ask(client, (backend) => backend.transaction(hash))) !== null,
    slotOwner: ({ raw }) => slotOwner(client, { raw, confirmations: chain.confirmations }),
    isExpired: async () => false,
    // There are no contracts, and nothing is transferred by an authorisation.
    authorizationEvents: async () => [],
    authorizationStanding: async () => ({ outcome: 'undecided' }),
  };
}
