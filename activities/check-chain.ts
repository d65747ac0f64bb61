import type { ChainAdapter, Chains, Inclusion, SendResult, SlotOwner } from '../shared/chain/adapter.ts';
import { type AttemptRow, clearInclusions, findAttempts, markSent } from '../shared/db/attempts.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findSlot, wishFor } from '../shared/db/slots.ts';
import { type FailureCode, getTransaction, putNotice, type TransactionRow } from '../shared/db/transactions.ts';
import type { Patience } from '../shared/domain/transaction.ts';
import { useUpNonce } from './broadcast.ts';
import { findPayment } from './find-payment.ts';
import { noteUnderpriced } from './note-underpriced.ts';
import { noteSignedUnfunded } from './note-unfunded.ts';
import { isDeepEnough, type RecordDependencies, recordFinality, recordInclusion } from './record-inclusion.ts';
import { storeSigned } from './store-signed.ts';

/**
 * - `final`: in a block, deep enough, stored; `settle` can end the payment (or it has ended).
 * - `included`: in a block that is not deep enough yet.
 * - `waiting`: in no block; its bytes are with a node, or were sent again just now where the chain would take them. Where
 *   they offer too little, `floor` is what nodes ask for, if they said so, and `replace`: something better is to be signed.
 * - `replaced`: another payment, `by` its hash, stands in its place for good; none of ours can be mined any more.
 * - `expired`: no block has taken it, and none can any more; `code` and `message` say how the payment ends.
 */
export type ChainState =
  | { readonly state: 'final' | 'included' }
  | { readonly state: 'waiting'; readonly floor?: string; readonly replace?: true }
  | { readonly state: 'replaced'; readonly by: string }
  | { readonly state: 'expired'; readonly code: FailureCode; readonly message: string };

export interface CheckChainDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly clock: () => Date;
  readonly patience: Patience;
}

/**
 * Asks the chain what has become of a payment, stores the answer as the block watcher would, and sends lost bytes
 * again. The slow way, for when no news came. Asks for the nonce to be used up when the payment has waited too long.
 * Safe to repeat.
 * @throws RpcUnavailable
 */
export function createCheckChain({ pool, chains, clock, patience }: CheckChainDependencies) {
  return async function checkChain(transactionId: string): Promise<ChainState> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    const attempts = await findAttempts(pool, { transactionId });
    if (row.status !== 'pending' || attempts.some((each) => each.final_at)) return { state: 'final' };
    if (attempts.length === 0) return lookForUnstored({ pool, adapter }, row);
    const [head, inclusions] = await Promise.all([
      adapter.head(),
      adapter.inclusions({ hashes: attempts.map((each) => each.hash) }),
    ]);
    const gone = attempts.filter((each) => each.block_hash && !inclusions.some((one) => one.hash === each.hash));
    if (gone.length > 0) await clearInclusions(pool, { chain: row.chain, hashes: gone.map((each) => each.hash) });
    if (inclusions.length > 0)
      return noteInclusions({ db: pool, adapter }, { transactionId, headNumber: head.number, inclusions });
    const expired = await Promise.all(attempts.map(({ raw }) => adapter.isExpired({ raw })));
    if (!expired.includes(false)) return endOfExpired(pool, row);
    const sent = await sendIfLost({ pool, adapter, clock }, { row, attempts });
    await giveUpInTime(pool, { row, attempts, now: clock(), patience });
    if (sent.outcome === 'underpriced') return { state: 'waiting', ...sent.found };
    if (sent.outcome !== 'slot_taken') return { state: 'waiting' };
    const owner = await findOwner(adapter, attempts);
    if (!owner) return { state: 'waiting' };
    const { hash } = owner.inclusion;
    if (!owner.samePayment) return { state: 'replaced', by: hash };
    // One of ours under another signature, one that the database has lost: it is done.
    const { purpose, version, offer } = owner.attempt;
    await storeSigned(pool, { row, hash, raw: owner.raw, purpose, version, offer });
    return noteInclusions(
      { db: pool, adapter },
      { transactionId, headNumber: head.number, inclusions: [owner.inclusion] },
    );
  };
}

/** Of a payment that is to end, the signers may have signed what nobody stored: it is over once that cannot be mined any more. */
async function lookForUnstored(
  { pool, adapter }: { pool: Pool; adapter: ChainAdapter },
  row: TransactionRow,
): Promise<ChainState> {
  const slot = await findSlot(pool, { transactionId: row.id });
  const isToEnd = slot?.wanted === 'cancel' || slot?.wanted === 'fill';
  const isOver = isToEnd && (await adapter.isExpired({ payload: slot.payload }));
  return isOver ? endOfExpired(pool, row) : { state: 'waiting' };
}

/** As it was to end anyway, where somebody or something had ended it before. */
async function endOfExpired(pool: Pool, { id }: TransactionRow): Promise<ChainState> {
  const slot = await findSlot(pool, { transactionId: id });
  const message = 'No block took its transaction before that expired: nothing was transferred, and nothing was spent.';
  return { state: 'expired', code: slot?.end_code ?? 'dropped', message: slot?.end_message ?? message };
}

/** What stands at the payment's nonce for good, and which of its attempts that does the same as, if any. */
async function findOwner(
  adapter: ChainAdapter,
  attempts: readonly AttemptRow[],
): Promise<(SlotOwner & { attempt: AttemptRow }) | undefined> {
  let found: (SlotOwner & { attempt: AttemptRow }) | undefined;
  for (const purpose of ['payment', 'noop'] as const) {
    const attempt = attempts.find((each) => each.purpose === purpose);
    if (!attempt) continue;
    const owner = await adapter.slotOwner({ raw: attempt.raw });
    if (!owner) return undefined;
    found = { ...owner, attempt };
    if (owner.samePayment) return found;
  }
  return found;
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
  const { settled } = await recordFinality({ db, adapter }, { headNumber, due });
  return { state: settled.length > 0 ? 'final' : 'included' };
}

type Resent =
  | { readonly outcome: 'kept' | Exclude<SendResult['outcome'], 'underpriced'> }
  | { readonly outcome: 'underpriced'; readonly found: { readonly floor?: string; readonly replace?: true } };

/** Sends the newest bytes if no node has any of the payment's, and notes what is said against them. */
async function sendIfLost(
  { pool, adapter, clock }: { pool: Pool; adapter: ChainAdapter; clock: () => Date },
  { row, attempts }: { row: TransactionRow; attempts: readonly AttemptRow[] },
): Promise<Resent> {
  const known = await Promise.all(attempts.map(({ hash }) => adapter.knows({ hash })));
  if (known.includes(true)) return { outcome: 'kept' };
  const { hash, raw, purpose } = attempts.reduce((a, b) => (a.version < b.version ? b : a));
  const slot = await findSlot(pool, { transactionId: row.id });
  // The payment was not sent before, and must not be any more: its nonce is about to be used up.
  if (purpose === 'payment' && slot?.wanted && slot.wanted !== 'speed_up') return { outcome: 'kept' };
  const result = await adapter.send({ raw });
  if (result.outcome === 'sent') {
    await markSent(pool, { chain: row.chain, hash, sentAt: clock() });
    await putNotice(pool, { id: row.id, notice: null });
  }
  if (result.outcome === 'unfunded') await noteSignedUnfunded(pool, { row, reason: result.reason, now: clock() });
  if (result.outcome === 'refused') await useUpNonce(pool, { transactionId: row.id, purpose, reason: result.reason });
  if (result.outcome !== 'underpriced') return result;
  const { floor } = result;
  const isWanted = await noteUnderpriced(pool, { row, adapter, ...result });
  return {
    outcome: 'underpriced',
    found: { ...(floor !== undefined && { floor }), ...(isWanted && { replace: true }) },
  };
}

/** A payment ends in a bounded time: when it has waited too long for its block or for money, its nonce is used up. */
async function giveUpInTime(
  pool: Pool,
  {
    row,
    attempts,
    now,
    patience,
  }: { row: TransactionRow; attempts: readonly AttemptRow[]; now: Date; patience: Patience },
): Promise<void> {
  const signedAt = Math.min(...attempts.map((each) => each.created_at.getTime()));
  const unfundedAt = (await getTransaction(pool, { id: row.id }))?.unfunded_since?.getTime();
  const isOver = (since: number | undefined, ms: number) => since !== undefined && now.getTime() - since > ms;
  const end = isOver(unfundedAt, patience.fundingWaitMs)
    ? { code: 'insufficient_funds' as const, message: `${row.notice ?? 'The wallet could not pay for it.'} None has.` }
    : isOver(signedAt, patience.giveUpMs)
      ? {
          code: 'dropped' as const,
          message: `No block has taken the transaction since ${new Date(signedAt).toISOString()}.`,
        }
      : undefined;
  if (end) await wishFor(pool, { transactionId: row.id, wanted: 'fill', end });
}
