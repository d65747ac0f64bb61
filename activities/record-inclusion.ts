import type { ChainAdapter, Inclusion } from '../shared/chain/adapter.ts';
import { type AttemptRow, storeFinality, storeInclusions } from '../shared/db/attempts.ts';
import type { Queryable } from '../shared/db/pool.ts';

export interface RecordDependencies {
  readonly db: Queryable;
  readonly adapter: ChainAdapter;
}

/** Notes in which blocks these attempts are. One database transaction; a repeat changes nothing. */
export async function recordInclusion(
  { db, adapter }: RecordDependencies,
  { headNumber, inclusions }: { headNumber: number; inclusions: readonly Inclusion[] },
): Promise<void> {
  if (inclusions.length === 0) return;
  await storeInclusions(db, { chain: adapter.chain.id, headNumber, inclusions });
}

/** Whether the block of an attempt is as deep as the chain asks for. */
export function isDeepEnough({ adapter }: RecordDependencies, attempt: AttemptRow, headNumber: number): boolean {
  if (attempt.block_number === null) return false;
  return Number(attempt.block_number) <= headNumber - adapter.chain.confirmations + 1;
}

/**
 * Makes final what is deep enough, after asking whether most endpoints see it as it was noted. Facts that one endpoint
 * alone has told, such as the fee, are corrected by then.
 * @param headNumber the newest block that most endpoints have reached
 * @param due attempts whose block is deep enough
 * @returns payments that can now be settled; attempts whose block has gone; where else those are that have `moved`, to
 *   be noted after they were undone; how many were left as they are because too few endpoints agree
 */
export async function recordFinality(
  { db, adapter }: RecordDependencies,
  { headNumber, due }: { headNumber: number; due: readonly AttemptRow[] },
): Promise<{ settled: string[]; orphaned: AttemptRow[]; moved: Inclusion[]; undecided: number }> {
  const placed = due.map((each) => ({ hash: each.hash, blockNumber: Number(each.block_number) }));
  const agreed = placed.length > 0 ? await adapter.agreedInclusions({ placed }) : [];
  const outcomes = due.map((attempt, index) => ({ attempt, ...agreed[index]! }));
  const included = outcomes.flatMap((each) => (each.outcome === 'included' ? [each] : []));
  const confirmed = included.filter(({ attempt, inclusion }) => attempt.block_hash === inclusion.blockHash);
  const moved = included.filter((each) => !confirmed.includes(each));
  const absent = outcomes.filter((each) => each.outcome === 'absent');
  const corrected = confirmed.filter(({ attempt, inclusion }) => !isAsNoted(attempt, inclusion));
  const inclusions = corrected.map(({ inclusion }) => inclusion);
  await recordInclusion({ db, adapter }, { headNumber, inclusions });
  const finals = confirmed
    .filter(({ attempt }) => isDeepEnough({ db, adapter }, attempt, headNumber))
    .map(({ inclusion }) => ({ hash: inclusion.hash, blockHash: inclusion.blockHash }));
  const chain = adapter.chain.id;
  return {
    settled: finals.length > 0 ? await storeFinality(db, { chain, headNumber, finals }) : [],
    orphaned: [...moved, ...absent].map(({ attempt }) => attempt),
    moved: moved.map(({ inclusion }) => inclusion),
    undecided: outcomes.filter((each) => each.outcome === 'undecided').length,
  };
}

function isAsNoted(attempt: AttemptRow, { blockNumber, succeeded, feeMinor }: Inclusion): boolean {
  return (
    Number(attempt.block_number) === blockNumber &&
    attempt.succeeded === succeeded &&
    attempt.fee_minor === feeMinor.toString()
  );
}
