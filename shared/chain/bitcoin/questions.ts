import type { Block, Inclusion } from '../adapter.ts';
import type { InclusionQuestions } from '../endpoints/agreed-inclusions.ts';
import type { BitcoinCall, Known } from './backend.ts';

/** How servers are asked for blocks and for what is in them; a transaction is known by its id. */
export const questions: InclusionQuestions<BitcoinCall> = {
  newest: (backend) => backend.newestBlock(),
  at: (number) => (backend) => backend.blockAt(number),
  read: (answer) => (answer ?? undefined) as Block | undefined,
  inclusion: (hash) => (backend) => backend.transaction(hash),
  readInclusion: (answer) => inclusionOf(answer as Known | null),
};

/** @returns undefined for what is in no block */
export function inclusionOf(known: Known | null | undefined): Inclusion | undefined {
  if (!known?.place) return undefined;
  const { blockNumber, blockHash } = known.place;
  // What is in a block has done what it says: there is no other way for it to be there.
  return { hash: known.hash, blockNumber, blockHash, succeeded: true, feeMinor: known.feeSat };
}
