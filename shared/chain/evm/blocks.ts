import { type Hex, numberToHex, type RpcBlock } from 'viem';
import type { Block } from '../adapter.ts';
import { type Heard, hearAll, mostNamed, reachedByMost } from '../endpoints/agreement.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';

/**
 * The newest block that more than half of the endpoints that answered have reached, on the branch that most show.
 * Endpoints that are behind it or on another branch are asked last from then on.
 * @throws RpcUnavailable
 */
export async function head(client: EvmClient): Promise<Block> {
  const heard = await hearAll(client.endpoints, [{ method: 'eth_getBlockByNumber', params: ['latest', false] }]);
  const heads = heard.flatMap(({ endpoint, answers }) => {
    const block = readBlock(answers[0]);
    return block ? [{ endpoint, block }] : [];
  });
  if (heads.length === 0) throw new RpcUnavailable('The endpoint answered without a newest block.');
  const number = reachedByMost(heads.map(({ block }) => block.number));
  const votes = heads.flatMap((each) => voteFor(each, number));
  const best = mostNamed(votes, (vote) => vote.hash)!;
  const block = heads.find((each) => each.block.hash === best.vote.hash)?.block;
  if (block && best.count > heads.length / 2) {
    const others = new Set(votes.filter((vote) => vote.hash !== block.hash).map((vote) => vote.endpoint));
    const agreeing = heads.filter((each) => each.block.number >= number && !others.has(each.endpoint));
    client.endpoints.noteAgreeing(new Set(agreeing.map(({ endpoint }) => endpoint)));
    return block;
  }
  // Most are past it by more than a block, or on different branches: what they have at that number tells.
  const [agreed] = await blocks(client, { numbers: [number] });
  return agreed ?? block ?? heads.find((each) => each.block.number === number)!.block;
}

/** Which block an endpoint has at a number, where its newest block tells. */
function voteFor(
  { endpoint, block }: { endpoint: Endpoint; block: Block },
  number: number,
): { endpoint: Endpoint; hash: string }[] {
  if (block.number === number) return [{ endpoint, hash: block.hash }];
  return block.number === number + 1 ? [{ endpoint, hash: block.parentHash }] : [];
}

/**
 * Blocks of the canonical chain by number, as most of the endpoints that answered show it.
 * @throws RpcUnavailable
 */
export async function blocks(
  client: EvmClient,
  { numbers }: { numbers: readonly number[] },
): Promise<(Block | undefined)[]> {
  if (numbers.length === 0) return [];
  const calls = numbers.map((number) => ({
    method: 'eth_getBlockByNumber',
    params: [numberToHex(number), false] as const,
  }));
  const heard = await hearAll(client.endpoints, calls);
  const found = numbers.map((_, index) => mostNamed(blocksAt(heard, index), (block) => block?.hash ?? '')?.vote);
  const differs = ({ answers }: Heard) =>
    answers.some((answer, index) => answer !== undefined && readBlock(answer)?.hash !== found[index]?.hash);
  client.endpoints.noteAgreeing(new Set(heard.filter((each) => !differs(each)).map(({ endpoint }) => endpoint)));
  return found;
}

/** What each endpoint has at one place of the question: a block before none, where as many have it as not. */
function blocksAt(heard: readonly Heard[], index: number): (Block | undefined)[] {
  const said = heard
    .filter(({ answers }) => answers[index] !== undefined)
    .map(({ answers }) => readBlock(answers[index]));
  return [...said.filter((block) => block !== undefined), ...said.filter((block) => block === undefined)];
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
