import type { ChainAdapter, Inclusion } from '../shared/chain/adapter.ts';
import { type AttemptRow, storeFinality, storeInclusions } from '../shared/db/attempts.ts';
import type { Queryable } from '../shared/db/pool.ts';

export interface RecordDependencies {
  readonly db: Queryable;
  readonly adapter: ChainAdapter;
}

/**
 * Notes in which blocks these attempts are, as far as most endpoints have reached those; the others are found when they
 * have. One database transaction; a repeat changes nothing.
 */
export async function recordInclusion(
  { db, adapter }: RecordDependencies,
  { headNumber, inclusions }: { headNumber: number; inclusions: readonly Inclusion[] },
): Promise<void> {
  const reached = inclusions.filter((each) => each.blockNumber <= headNumber);
  if (reached.length === 0) return;
  await storeInclusions(db, { chain: adapter.chain.id, headNumber, inclusions: reached });
}

/** Whether the block of an attempt is as deep as the chain asks for. */
export function isDeepEnough({ adapter }: RecordDependencies, attempt: AttemptRow, headNumber: number): boolean {
  return attempt.block_number !== null && isDeep(adapter, Number(attempt.block_number), headNumber);
}

/**
 * Makes final what is deep enough as most endpoints see it. What one endpoint alone has told otherwise, such as the fee
 * or the block, is corrected with it.
 * @param headNumber the newest block that most endpoints have reached
 * @param due attempts whose block is deep enough
 * @returns payments that can now be settled; attempts that are in no block any more; how many were left as they are
 *   because too few endpoints agree
 */
export async function recordFinality(
  { db, adapter }: RecordDependencies,
  { headNumber, due }: { headNumber: number; due: readonly AttemptRow[] },
): Promise<{ settled: string[]; orphaned: AttemptRow[]; undecided: number }> {
  if (due.length === 0) return { settled: [], orphaned: [], undecided: 0 };
  const placed = due.map((each) => ({ hash: each.hash, blockNumber: Number(each.block_number) }));
  const agreed = await adapter.agreedInclusions({ placed });
  const isFinal = (each: Inclusion) => isDeep(adapter, each.blockNumber, headNumber);
  const included = agreed.flatMap((each) => (each.outcome === 'included' ? [each.inclusion] : []));
  const [finals, others] = [included.filter(isFinal), included.filter((each) => !isFinal(each))];
  await recordInclusion({ db, adapter }, { headNumber, inclusions: others });
  const chain = adapter.chain.id;
  return {
    settled: finals.length > 0 ? await storeFinality(db, { chain, headNumber, finals }) : [],
    orphaned: due.filter((_, index) => agreed[index]!.outcome === 'absent'),
    undecided: agreed.filter((each) => each.outcome === 'undecided').length,
  };
}

function isDeep(adapter: ChainAdapter, blockNumber: number, headNumber: number): boolean {
  return blockNumber <= headNumber - adapter.chain.confirmations + 1;
}
