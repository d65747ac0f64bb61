import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import type { Signed } from '../shared/chain/family.ts';
import { findAttempts, markSent } from '../shared/db/attempts.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findSlot, wishFor } from '../shared/db/slots.ts';
import { putNotice } from '../shared/db/transactions.ts';
import { findPayment } from './find-payment.ts';
import { noteUnderpriced } from './note-underpriced.ts';
import { noteSignedUnfunded } from './note-unfunded.ts';
import { storeSigned } from './store-signed.ts';

/**
 * - `sent`: a node has the bytes, or one of the payment's attempts is in a block.
 * - `undecided`: something else stands at the nonce; `checkChain` tells in time what it is.
 * - `unfunded`: the wallet cannot pay the fee yet; the bytes are sent again with each look at the chain.
 * - `underpriced`: nodes ask for more than the bytes offer; a replacement was asked for where one may offer enough, and else
 *   they are sent again with each look at the chain.
 * - `refused`: no node will ever take the bytes; where they were the payment, its nonce is to be used up instead.
 * - `superseded`: stored and not sent, for the nonce is to be used up instead.
 * - `ended`: the payment is not pending any more, and nothing was sent.
 */
export type BroadcastResult =
  | { readonly outcome: 'sent' | 'undecided' | 'unfunded' | 'refused' | 'superseded' | 'ended' }
  | { readonly outcome: 'underpriced'; readonly floor?: string };

export interface BroadcastDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly clock: () => Date;
}

/**
 * Stores the signed bytes, and only then sends them: whatever a node may hold, the database knows of. Safe to repeat.
 * @param version which of the slot's payloads the bytes are; the first one by default
 * @throws RpcUnavailable: no node could be asked
 */
export function createBroadcast({ pool, chains, clock }: BroadcastDependencies) {
  return async function broadcast({
    transactionId,
    raw,
    hash,
    offer,
    version = 1,
  }: Signed & {
    transactionId: string;
    version?: number;
  }): Promise<BroadcastResult> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    const { from_address: from, chain } = row;
    const purpose = familyOf(chain).purposeOf(raw, { from, chain });
    const attempt = { hash, raw, purpose, version, offer: offer ?? null };
    if (!(await storeSigned(pool, { row, ...attempt }))) return { outcome: 'ended' };
    const slot = await findSlot(pool, { transactionId });
    if (purpose === 'payment' && slot?.wanted && slot.wanted !== 'speed_up') return { outcome: 'superseded' };
    const result = await adapter.send({ raw });
    if (result.outcome === 'sent') {
      await markSent(pool, { chain, hash, sentAt: clock() });
      return { outcome: 'sent' };
    }
    // Another answer does not undo what happened before: the bytes may be mined, or wait at another node.
    if (await isOnChain({ pool, adapter, transactionId })) return { outcome: 'sent' };
    if (result.outcome === 'slot_taken') return { outcome: 'undecided' };
    if (result.outcome === 'underpriced') {
      const { reason, ...rest } = result;
      await noteUnderpriced(pool, { row, adapter, ...result });
      return rest;
    }
    if (result.outcome === 'unfunded') await noteSignedUnfunded(pool, { row, reason: result.reason, now: clock() });
    else await useUpNonce(pool, { transactionId, purpose, reason: result.reason });
    return { outcome: result.outcome };
  };
}

/** No node will ever take the payment: it fails once its nonce is used up. What does nothing itself can only be tried again. */
export async function useUpNonce(
  db: Pool,
  { transactionId, purpose, reason }: { transactionId: string; purpose: 'payment' | 'noop'; reason: string },
): Promise<void> {
  const message = `The chain refuses the transaction: ${reason}.`;
  await putNotice(db, { id: transactionId, notice: message });
  if (purpose === 'payment') await wishFor(db, { transactionId, wanted: 'fill', end: { code: 'dropped', message } });
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
