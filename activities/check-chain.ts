import type { ChainAdapter, Chains, Inclusion } from '../shared/chain/adapter.ts';
import { type AttemptRow, clearInclusions, findAttempts, markSent, storeAttempt } from '../shared/db/attempts.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findPayment } from './find-payment.ts';
import { isDeepEnough, type RecordDependencies, recordFinality, recordInclusion } from './record-inclusion.ts';

/**
 * - `final`: in a block, deep enough, stored; `settle` can end the payment (or it has ended).
 * - `included`: in a block that is not deep enough yet.
 * - `waiting`: in no block; its bytes are with a node, or were sent again just now where the chain would take them.
 * - `replaced`: another payment, `by` its hash, stands at the nonce for good; none of ours can be mined any more.
 */
export type ChainState =
  | { readonly state: 'final' | 'included' | 'waiting' }
  | { readonly state: 'replaced'; readonly by: string };

export interface CheckChainDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly clock: () => Date;
}

/**
 * Asks the chain what has become of a payment, stores the answer as the block watcher would, and sends lost bytes
 * again. The slow way, for when no news came. Safe to repeat.
 * @throws RpcUnavailable
 */
export function createCheckChain({ pool, chains, clock }: CheckChainDependencies) {
  return async function checkChain(transactionId: string): Promise<ChainState> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    const attempts = await findAttempts(pool, { transactionId });
    if (row.status !== 'pending' || attempts.some((each) => each.final_at)) return { state: 'final' };
    if (attempts.length === 0) return { state: 'waiting' };
    const [head, inclusions] = await Promise.all([
      adapter.head(),
      adapter.inclusions({ hashes: attempts.map((each) => each.hash) }),
    ]);
    const gone = attempts.filter((each) => each.block_hash && !inclusions.some((one) => one.hash === each.hash));
    if (gone.length > 0) await clearInclusions(pool, { chain: row.chain, hashes: gone.map((each) => each.hash) });
    if (inclusions.length > 0)
      return noteInclusions({ db: pool, adapter }, { transactionId, headNumber: head.number, inclusions });
    const newest = attempts.reduce((a, b) => (a.created_at < b.created_at ? b : a));
    const sent = await sendIfLost(adapter, { attempts, newest });
    if (sent === 'sent') await markSent(pool, { chain: row.chain, hash: newest.hash, sentAt: clock() });
    if (sent !== 'slot_taken') return { state: 'waiting' };
    const owner = await adapter.slotOwner({ raw: newest.raw });
    if (!owner) return { state: 'waiting' };
    const { hash } = owner.inclusion;
    if (!owner.samePayment) return { state: 'replaced', by: hash };
    // The same payment under another signature, one that the database has lost: it is ours, and it is done.
    await storeAttempt(pool, { transactionId, hash, raw: owner.raw });
    return noteInclusions(
      { db: pool, adapter },
      { transactionId, headNumber: head.number, inclusions: [owner.inclusion] },
    );
  };
}

async function noteInclusions(
  { db, adapter }: RecordDependencies,
  {
    transactionId,
    headNumber,
    inclusions,
  }: { transactionId: string; headNumber: number; inclusions: readonly Inclusion[] },
): Promise<ChainState> {
  await recordInclusion({ db, adapter }, { headNumber, inclusions });
  const due = (await findAttempts(db, { transactionId })).filter((each) =>
    isDeepEnough({ db, adapter }, each, headNumber),
  );
  // The watcher may be faster than this call: an attempt that it has made final is not counted twice.
  if (due.some((each) => each.final_at)) return { state: 'final' };
  const { settled } = await recordFinality({ db, adapter }, { headNumber, due, knownHashes: new Map() });
  return { state: settled.length > 0 ? 'final' : 'included' };
}

/** Sends the newest bytes if no node has any of the payment's. What a node says against them decides nothing here. */
async function sendIfLost(
  adapter: ChainAdapter,
  { attempts, newest }: { attempts: readonly AttemptRow[]; newest: AttemptRow },
): Promise<'kept' | 'sent' | 'slot_taken' | 'unfunded' | 'refused'> {
  const known = await Promise.all(attempts.map(({ hash }) => adapter.knows({ hash })));
  if (known.includes(true)) return 'kept';
  return (await adapter.send({ raw: newest.raw })).outcome;
}
