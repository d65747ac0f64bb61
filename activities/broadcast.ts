import { ApplicationFailure } from '@temporalio/common';
import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import { findAttempts, markSent, storeAttempt } from '../shared/db/attempts.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findPayment } from './find-payment.ts';

/**
 * - `sent`: a node has the bytes, or one of the payment's attempts is in a block.
 * - `undecided`: something else stands at the nonce; `checkChain` tells in time what it is.
 * - `ended`: the payment is not pending any more, and nothing was sent.
 */
export interface BroadcastResult {
  readonly outcome: 'sent' | 'undecided' | 'ended';
}

export interface BroadcastDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly clock: () => Date;
}

/**
 * Stores the signed bytes, and only then sends them: whatever a node may hold, the database knows of. Safe to repeat.
 * @throws `BroadcastRefused`, not to be repeated: no node will ever take these bytes; the message says why
 * @throws `Unfunded`: the wallet cannot pay the fee; goes on once it is funded
 * @throws RpcUnavailable: no node could be asked
 */
export function createBroadcast({ pool, chains, clock }: BroadcastDependencies) {
  return async function broadcast({
    transactionId,
    raw,
    hash,
  }: {
    transactionId: string;
    raw: string;
    hash: string;
  }): Promise<BroadcastResult> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    if (!(await storeAttempt(pool, { transactionId, hash, raw }))) return { outcome: 'ended' };
    const result = await adapter.send({ raw });
    if (result.outcome === 'sent') {
      await markSent(pool, { chain: row.chain, hash, sentAt: clock() });
      return { outcome: 'sent' };
    }
    // Another answer does not undo what happened before: the bytes may be mined, or wait at another node.
    if (await isOnChain({ pool, adapter, transactionId })) return { outcome: 'sent' };
    if (result.outcome === 'slot_taken') return { outcome: 'undecided' };
    if (result.outcome === 'unfunded')
      throw ApplicationFailure.retryable(
        `The wallet ${row.from_address} cannot pay the fee of ${hash} yet: ${result.reason}.`,
        'Unfunded',
      );
    throw ApplicationFailure.nonRetryable(`The chain refuses the transaction: ${result.reason}.`, 'BroadcastRefused');
  };
}

/** Whether any attempt of the payment is mined or waits to be: that is what counts, not what was said about one. */
async function isOnChain({
  pool,
  adapter,
  transactionId,
}: {
  pool: Pool;
  adapter: ChainAdapter;
  transactionId: string;
}): Promise<boolean> {
  const attempts = await findAttempts(pool, { transactionId });
  const known = await Promise.all(attempts.map(({ hash }) => adapter.knows({ hash })));
  return known.includes(true);
}
