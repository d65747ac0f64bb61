import type { AgreedInclusion, Block, Inclusion } from '../adapter.ts';
import type { BlockQuestions } from './agreed-blocks.ts';
import { type Heard, hearAll, mostNamed } from './agreement.ts';
import type { EndpointPool } from './endpoint-pool.ts';

/** How endpoints of a family are asked for transactions, and what their answers say. */
export interface InclusionQuestions<Call> extends BlockQuestions<Call> {
  inclusion(hash: string): Call;
  /** @returns undefined where the transaction is in no block */
  readInclusion(answer: unknown): Inclusion | undefined;
}

/** What an endpoint says about a transaction: where it is, or that it is in no block. */
type Vote = Inclusion | 'absent';

/** A transaction and the number of the block in which it was seen. */
interface Placed {
  readonly hash: string;
  readonly blockNumber: number;
}

/**
 * What more than half of all configured endpoints say about these transactions. One question an endpoint: the
 * transactions, and the blocks in which they were seen. A transaction counts only if the endpoint has its block at that
 * number, for some keep what was in blocks that are gone.
 * @throws RpcUnavailable
 */
export async function agreedInclusions<Call>(
  pool: EndpointPool<Call>,
  questions: InclusionQuestions<Call>,
  { placed }: { placed: readonly Placed[] },
): Promise<AgreedInclusion[]> {
  const found = await askOnce(pool, questions, placed);
  const moved = found.flatMap((each, index) =>
    each.outcome === 'included' && each.inclusion.blockNumber !== placed[index]!.blockNumber
      ? [{ hash: each.hash, blockNumber: each.inclusion.blockNumber }]
      : [],
  );
  if (moved.length === 0) return found;
  // In other blocks than expected: whether those are part of the chain has not been asked yet.
  const again = await askOnce(pool, questions, moved);
  return found.map((each): AgreedInclusion => {
    const place = moved.findIndex(({ hash }) => hash === each.hash);
    if (place < 0) return each;
    const settled = again[place]!;
    const isThere = settled.outcome === 'included' && settled.inclusion.blockNumber === moved[place]!.blockNumber;
    return isThere ? settled : { hash: each.hash, outcome: 'undecided' };
  });
}

async function askOnce<Call>(
  pool: EndpointPool<Call>,
  questions: InclusionQuestions<Call>,
  placed: readonly Placed[],
): Promise<AgreedInclusion[]> {
  if (placed.length === 0) return [];
  const numbers = [...new Set(placed.map((each) => each.blockNumber))];
  const heard = await hearAll(pool, [
    ...placed.map(({ hash }) => questions.inclusion(hash)),
    ...numbers.map((number) => questions.at(number)),
  ]);
  return placed.map(({ hash, blockNumber }, index): AgreedInclusion => {
    const place = placed.length + numbers.indexOf(blockNumber);
    const votes = heard.flatMap((each) => vote(questions, each, { hash, blockNumber, index, place }) ?? []);
    const most = mostNamed(votes, keyOf);
    if (!most || most.count <= pool.size / 2) return { hash, outcome: 'undecided' };
    return most.vote === 'absent' ? { hash, outcome: 'absent' } : { hash, outcome: 'included', inclusion: most.vote };
  });
}

function vote<Call>(
  questions: InclusionQuestions<Call>,
  { answers }: Heard,
  { hash, blockNumber, index, place }: { hash: string; blockNumber: number; index: number; place: number },
): Vote | undefined {
  if (answers[index] === undefined) return undefined;
  const inclusion = questions.readInclusion(answers[index]);
  const block = questions.read(answers[place]);
  if (!inclusion) return isElsewhere(block, hash) ? 'absent' : undefined;
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
