import { type Hex, numberToHex, type RpcBlock } from 'viem';
import type { Block } from '../adapter.ts';
import { agreedBlocks, agreedHead, type BlockQuestions } from '../endpoints/agreed-blocks.ts';
import type { EvmClient } from './client.ts';
import type { RpcCall } from './rpc-driver.ts';

export const blockQuestions: BlockQuestions<RpcCall> = {
  newest: { method: 'eth_getBlockByNumber', params: ['latest', false] },
  at: (number) => ({ method: 'eth_getBlockByNumber', params: [numberToHex(number), false] }),
  read: readBlock,
};

/** See {@link agreedHead}. @throws RpcUnavailable */
export function head(client: EvmClient): Promise<Block> {
  return agreedHead(client.endpoints, blockQuestions);
}

/** See {@link agreedBlocks}. @throws RpcUnavailable */
export function blocks(client: EvmClient, { numbers }: { numbers: readonly number[] }): Promise<(Block | undefined)[]> {
  return agreedBlocks(client.endpoints, blockQuestions, { numbers });
}

/** @param answer to `eth_getBlockByNumber` without transaction bodies */
export function readBlock(answer: unknown): Block | undefined {
  const block = answer as RpcBlock | null | undefined;
  if (!block?.hash || !block.number || !Number.isSafeInteger(Number(block.number))) return undefined;
  return {
    number: Number(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    transactionHashes: block.transactions as Hex[],
  };
}
