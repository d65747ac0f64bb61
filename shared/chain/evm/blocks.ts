import { type Hex, numberToHex, type RpcBlock } from 'viem';
import type { Block } from '../adapter.ts';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';

/** The newest block. @throws RpcUnavailable */
export async function head(client: EvmClient): Promise<Block> {
  const block = await ask(client.request({ method: 'eth_getBlockByNumber', params: ['latest', false] }));
  const read = readBlock(block);
  if (!read) throw new RpcUnavailable('The endpoint answered without a newest block.');
  return read;
}

/** Blocks of the canonical chain by number, asked for at once. @throws RpcUnavailable */
export async function blocks(
  client: EvmClient,
  { numbers }: { numbers: readonly number[] },
): Promise<(Block | undefined)[]> {
  return Promise.all(
    numbers.map(async (number) =>
      readBlock(await ask(client.request({ method: 'eth_getBlockByNumber', params: [numberToHex(number), false] }))),
    ),
  );
}

function readBlock(block: RpcBlock | null): Block | undefined {
  if (!block?.hash || !block.number) return undefined;
  return {
    number: Number(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    transactionHashes: block.transactions as Hex[],
  };
}
