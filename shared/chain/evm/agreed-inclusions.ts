import { numberToHex, type RpcTransactionReceipt } from 'viem';
import type { AgreedInclusion, Block, Inclusion } from '../adapter.ts';
import { type Heard, hearAll, mostNamed } from '../endpoints/agreement.ts';
import { readBlock } from './blocks.ts';
import type { EvmClient } from './client.ts';
import { readReceipt } from './inclusions.ts';

/** What an endpoint says about a transaction: its receipt, or that it is in no block. */
type Vote = Inclusion | 'absent';

/** A transaction and the number of the block in which it was seen. */
interface Placed {
  readonly hash: string;
  readonly blockNumber: number;
}

/**
 * What more than half of all configured endpoints say about these transactions. One batched question an endpoint: the
 * receipts, and the blocks in which they were seen. A receipt counts only if the endpoint has its block at that number,
 * for some keep receipts of blocks that are gone.
 * @throws RpcUnavailable
 */
export async function agreedInclusions(
  client: EvmClient,
  { placed }: { placed: readonly Placed[] },
): Promise<AgreedInclusion[]> {
  const found = await askOnce(client, placed);
  const moved = found.flatMap((each, index) =>
    each.outcome === 'included' && each.inclusion.blockNumber !== placed[index]!.blockNumber
      ? [{ hash: each.hash, blockNumber: each.inclusion.blockNumber }]
      : [],
  );
  if (moved.length === 0) return found;
  // In other blocks than expected: whether those are part of the chain has not been asked yet.
  const again = await askOnce(client, moved);
  return found.map((each): AgreedInclusion => {
    const place = moved.findIndex(({ hash }) => hash === each.hash);
    if (place < 0) return each;
    const settled = again[place]!;
    const isThere = settled.outcome === 'included' && settled.inclusion.blockNumber === moved[place]!.blockNumber;
    return isThere ? settled : { hash: each.hash, outcome: 'undecided' };
  });
}

async function askOnce(client: EvmClient, placed: readonly Placed[]): Promise<AgreedInclusion[]> {
  if (placed.length === 0) return [];
  const numbers = [...new Set(placed.map((each) => each.blockNumber))];
  const heard = await hearAll(client.endpoints, [
    ...placed.map(({ hash }) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
    ...numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [numberToHex(number), false] })),
  ]);
  return placed.map(({ hash, blockNumber }, index): AgreedInclusion => {
    const place = placed.length + numbers.indexOf(blockNumber);
    const votes = heard.flatMap((each) => vote(each, { hash, blockNumber, index, place }) ?? []);
    const most = mostNamed(votes, keyOf);
    if (!most || most.count <= client.endpoints.size / 2) return { hash, outcome: 'undecided' };
    return most.vote === 'absent' ? { hash, outcome: 'absent' } : { hash, outcome: 'included', inclusion: most.vote };
  });
}

function vote(
  { answers }: Heard,
  { hash, blockNumber, index, place }: { hash: string; blockNumber: number; index: number; place: number },
): Vote | undefined {
  const receipt = answers[index] as RpcTransactionReceipt | null | undefined;
  const block = readBlock(answers[place]);
  if (receipt === undefined) return undefined;
  if (!receipt?.blockHash) return isElsewhere(block, hash) ? 'absent' : undefined;
  const inclusion = readReceipt(receipt);
  // In another block than expected: that one was not asked for yet.
  if (inclusion.blockNumber !== blockNumber) return inclusion;
  return block?.hash === inclusion.blockHash ? inclusion : undefined;
}

/** Whether an endpoint has reached the block and does not have the transaction in it: a lagging one cannot tell. */
function isElsewhere(block: Block | undefined, hash: string): boolean {
  return block !== undefined && !block.transactionHashes.includes(hash);
}

function keyOf(said: Vote): string {
  if (said === 'absent') return said;
  return [said.blockHash, said.blockNumber, said.succeeded, said.feeMinor].join(' ');
}
