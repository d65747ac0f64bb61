import type { ChainAdapter, Inclusion } from '../shared/chain/adapter.ts';
import { type AttemptRow, storeFinality, storeInclusions } from '../shared/db/attempts.ts';
import type { Queryable } from '../shared/db/pool.ts';

/** Blocks that are asked for at once. */
const blockBatch = 50;

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
 * Makes final what is deep enough, after asking once more whether its block is part of the chain.
 * @param due attempts whose block is deep enough
 * @param knownHashes hashes of canonical blocks by number, as the caller has just seen them; the others are asked for
 * @returns payments that can now be settled, and attempts whose block has gone
 */
export async function recordFinality(
  { db, adapter }: RecordDependencies,
  {
    headNumber,
    due,
    knownHashes,
  }: { headNumber: number; due: readonly AttemptRow[]; knownHashes: ReadonlyMap<number, string> },
): Promise<{ settled: string[]; orphaned: AttemptRow[] }> {
  if (due.length === 0) return { settled: [], orphaned: [] };
  const numbers = [...new Set(due.map((each) => Number(each.block_number)))];
  const hashes = await canonicalHashes(adapter, { numbers, knownHashes });
  const isCanonical = (each: AttemptRow) => hashes.get(Number(each.block_number)) === each.block_hash;
  const finals = due.filter(isCanonical).map((each) => ({ hash: each.hash, blockHash: each.block_hash! }));
  const orphaned = due.filter((each) => !isCanonical(each));
  const chain = adapter.chain.id;
  const settled = finals.length > 0 ? await storeFinality(db, { chain, headNumber, finals }) : [];
  return { settled, orphaned };
}

async function canonicalHashes(
  adapter: ChainAdapter,
  { numbers, knownHashes }: { numbers: readonly number[]; knownHashes: ReadonlyMap<number, string> },
): Promise<Map<number, string | undefined>> {
  const hashes = new Map<number, string | undefined>(numbers.map((number) => [number, knownHashes.get(number)]));
  const asked = numbers.filter((number) => !knownHashes.has(number));
  for (let start = 0; start < asked.length; start += blockBatch) {
    const part = asked.slice(start, start + blockBatch);
    const found = await adapter.blocks({ numbers: part });
    part.forEach((number, index) => {
      hashes.set(number, found[index]?.hash);
    });
  }
  return hashes;
}
