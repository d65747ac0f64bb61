import { isOpen } from './attempts.ts';
import type { Queryable } from './pool.ts';

/** Notes since which block the chain's sent attempts wait: those that are new, and whose block has gone. */
export async function noteWaiting(
  db: Queryable,
  { chain, headNumber }: { chain: string; headNumber: number },
): Promise<void> {
  await db.query(
    `update attempts a set waiting_block = $2
     where ${isOpen} and a.block_number is null and a.waiting_block is null and a.sent_at is not null`,
    [chain, headNumber],
  );
}

/** Counts the blocks for which a payment's attempts have waited anew. */
export async function restartWaiting(db: Queryable, { transactionId }: { transactionId: string }): Promise<void> {
  await db.query('update attempts set waiting_block = null where transaction_id = $1 and final_at is null', [
    transactionId,
  ]);
}

/**
 * Asks for higher fees where they are due: for the lowest nonce of each wallet that is in no block, once it has waited
 * for so many blocks since it was first seen waiting and since the one before it was mined. Those behind it wait for it.
 * Payments without nonces wait for nobody: each counts by itself.
 * @returns the payments; tell their workflows
 */
export async function wishForDueSpeed(
  db: Queryable,
  { chain, headNumber, afterBlocks }: { chain: string; headNumber: number; afterBlocks: number },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `with lowest as (
       select distinct on (s.wallet_id, case when s.nonce is null then s.transaction_id end) s.wallet_id, s.nonce, s.transaction_id, s.version, s.wanted
       from slots s
       where s.chain = $1 and s.closed_at is null
         and not exists (
           select from attempts a where a.transaction_id = s.transaction_id and a.block_number is not null)
       order by s.wallet_id, case when s.nonce is null then s.transaction_id end, s.nonce)
     update slots s set wanted = 'speed_up', wanted_at = now()
     from lowest l join attempts newest on newest.transaction_id = l.transaction_id and newest.version = l.version
     where s.transaction_id = l.transaction_id and s.wanted is null and s.closed_at is null
       and newest.sent_at is not null and newest.waiting_block + $3 <= $2
       and not exists (
         select from slots b join attempts a on a.transaction_id = b.transaction_id
         where b.wallet_id = l.wallet_id and b.chain = $1 and b.nonce = l.nonce - 1 and a.block_number + $3 > $2)
     returning s.transaction_id as id`,
    [chain, headNumber, afterBlocks],
  );
  return rows.map((row) => row.id);
}
