import type { Block } from '../adapter.ts';
import { RpcUnavailable } from '../errors.ts';
import { type Heard, hearAll, mostNamed, reachedByMost } from './agreement.ts';
import type { Endpoint } from './endpoint.ts';
import type { EndpointPool } from './endpoint-pool.ts';

/** How endpoints of a family are asked for blocks, and what their answers say. */
export interface BlockQuestions<Call> {
  readonly newest: Call;
  at(number: number): Call;
  /** @returns undefined where there is no such block */
  read(answer: unknown): Block | undefined;
}

/**
 * The newest block that more than half of the endpoints that answered have reached, on the branch that most show.
 * Endpoints that are behind it or on another branch are asked last from then on.
 * @throws RpcUnavailable
 */
export async function agreedHead<Call>(pool: EndpointPool<Call>, questions: BlockQuestions<Call>): Promise<Block> {
  const heard = await hearAll(pool, [questions.newest]);
  const heads = heard.flatMap(({ endpoint, answers }) => {
    const block = questions.read(answers[0]);
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
    pool.noteAgreeing(new Set(agreeing.map(({ endpoint }) => endpoint)));
    return block;
  }
  // Most are past it by more than a block, or on different branches: what they have at that number tells.
  const [agreed] = await agreedBlocks(pool, questions, { numbers: [number] });
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
export async function agreedBlocks<Call>(
  pool: EndpointPool<Call>,
  questions: BlockQuestions<Call>,
  { numbers }: { numbers: readonly number[] },
): Promise<(Block | undefined)[]> {
  if (numbers.length === 0) return [];
  const heard = await hearAll(
    pool,
    numbers.map((number) => questions.at(number)),
  );
  /** What each endpoint has at one place of the question: a block before none, where as many have it as not. */
  const blocksAt = (index: number) => {
    const said = heard
      .filter(({ answers }) => answers[index] !== undefined)
      .map(({ answers }) => questions.read(answers[index]));
    return [...said.filter((block) => block !== undefined), ...said.filter((block) => block === undefined)];
  };
  const found = numbers.map((_, index) => mostNamed(blocksAt(index), (block) => block?.hash ?? '')?.vote);
  const differs = ({ answers }: Heard) =>
    answers.some((answer, index) => answer !== undefined && questions.read(answer)?.hash !== found[index]?.hash);
  pool.noteAgreeing(new Set(heard.filter((each) => !differs(each)).map(({ endpoint }) => endpoint)));
  return found;
}
