import type { Block } from '../adapter.ts';
import { agreedBlocks, agreedHead, type BlockQuestions } from '../endpoints/agreed-blocks.ts';
import { inBatches } from '../endpoints/in-batches.ts';
import { readBlock } from './answers.ts';
import { blockAt, type TronCall, type TronEndpoints, tronCall } from './node.ts';

/** A block comes with all its transactions, some hundred kilobytes. */
const blocksAtOnce = 8;

/** Of all blocks, whether solidified or not. */
const questions: BlockQuestions<TronCall> = {
  newest: tronCall('wallet', 'getnowblock'),
  at: (number) => blockAt('wallet', number),
  read: readBlock,
};

/** See `agreedHead` of shared/chain/endpoints. @throws RpcUnavailable */
export function head(endpoints: TronEndpoints): Promise<Block> {
  return agreedHead(endpoints, questions);
}

/** See `agreedBlocks` of shared/chain/endpoints. @throws RpcUnavailable */
export function blocks(endpoints: TronEndpoints, p: { numbers: readonly number[] }): Promise<(Block | undefined)[]> {
  return inBatches(p.numbers, blocksAtOnce, (numbers) => agreedBlocks(endpoints, questions, { numbers }));
}
