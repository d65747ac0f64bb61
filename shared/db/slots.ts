import type { SignPayload } from '../domain/receipt.ts';
import type { Queryable } from './pool.ts';

/** One nonce of one wallet on one chain, and the payment that it belongs to. */
export interface SlotRow {
  readonly wallet_id: string;
  readonly chain: string;
  readonly nonce: string;
  readonly transaction_id: string;
  readonly payload: SignPayload;
  readonly closed_at: Date | null;
}

export async function findSlot(
  db: Queryable,
  { transactionId }: { transactionId: string },
): Promise<SlotRow | undefined> {
  const { rows } = await db.query<SlotRow>('select * from slots where transaction_id = $1', [transactionId]);
  return rows[0];
}

/** Payments of this wallet that have a nonce and are not final. */
export async function countOpenSlots(
  db: Queryable,
  { walletId, chain }: { walletId: string; chain: string },
): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from slots where wallet_id = $1 and chain = $2 and closed_at is null',
    [walletId, chain],
  );
  return rows[0]!.count;
}

/**
 * The lowest nonce, not below the chain's mined count, that no payment of ours has: a nonce given back is used again,
 * one of ours that a lagging node has not seen yet is passed over. Hold the wallet's lock.
 */
export async function nextNonce(
  db: Queryable,
  { walletId, chain, minedCount }: { walletId: string; chain: string; minedCount: number },
): Promise<number> {
  const { rows } = await db.query<{ nonce: string }>(
    `select min(candidate) as nonce from (
       select $3::bigint as candidate
       union all
       select nonce + 1 from slots where wallet_id = $1 and chain = $2 and nonce >= $3
     ) candidates
     where not exists (
       select from slots where wallet_id = $1 and chain = $2 and nonce = candidate)`,
    [walletId, chain, minedCount],
  );
  return Number(rows[0]!.nonce);
}

export async function insertSlot(
  db: Queryable,
  slot: { walletId: string; chain: string; nonce: number; transactionId: string; payload: SignPayload },
): Promise<void> {
  await db.query('insert into slots (wallet_id, chain, nonce, transaction_id, payload) values ($1, $2, $3, $4, $5)', [
    slot.walletId,
    slot.chain,
    slot.nonce,
    slot.transactionId,
    JSON.stringify(slot.payload),
  ]);
}

/** Gives a nonce back that was never signed: nothing was stored for broadcast. @returns whether there was one */
export async function releaseSlot(db: Queryable, { transactionId }: { transactionId: string }): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from slots where transaction_id = $1
       and not exists (select from attempts where attempts.transaction_id = slots.transaction_id)`,
    [transactionId],
  );
  return rowCount === 1;
}

/** Nothing but what was mined can be mined at this nonce any more. */
export async function closeSlot(db: Queryable, { transactionId }: { transactionId: string }): Promise<void> {
  await db.query('update slots set closed_at = now() where transaction_id = $1 and closed_at is null', [transactionId]);
}
