import type { Coin, Places } from '../chain/family.ts';
import type { TransactionPayload } from '../domain/receipt.ts';
import { replacedSlotsMax } from '../domain/slot.ts';
import type { Queryable } from './pool.ts';
import type { FailureCode } from './transactions.ts';

/** The place of one payment on its chain: a nonce of its wallet, coins (table `coins`), or a transaction that expires. */
export interface SlotRow {
  readonly wallet_id: string;
  readonly chain: string;
  /** `null` on chains without. */
  readonly nonce: string | null;
  readonly transaction_id: string;
  /** The newest thing to be signed at this nonce. */
  readonly payload: TransactionPayload;
  /** What that does: the payment, or nothing; on demand (`cancel`), or because the payment cannot be made (`fill`). */
  readonly purpose: 'payment' | 'cancel' | 'fill';
  /** Counts the payloads. One that no attempt has is still to be signed. */
  readonly version: number;
  /** A replacement that was asked for and has no payload yet. */
  readonly wanted: 'speed_up' | 'cancel' | 'fill' | null;
  /** How the payment ends once something that does nothing has taken its nonce. */
  readonly end_code: FailureCode | null;
  readonly end_message: string | null;
  /** Slots that it had before and gave up, as the signers name them. */
  readonly former_slots: readonly string[];
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
  slot: {
    walletId: string;
    chain: string;
    nonce: number | null;
    coins?: readonly Coin[];
    transactionId: string;
    payload: TransactionPayload;
  },
): Promise<void> {
  await db.query('insert into slots (wallet_id, chain, nonce, transaction_id, payload) values ($1, $2, $3, $4, $5)', [
    slot.walletId,
    slot.chain,
    slot.nonce,
    slot.transactionId,
    JSON.stringify(slot.payload),
  ]);
  const { chain, transactionId, coins = [] } = slot;
  if (coins.length === 0) return;
  // One that another payment has violates the key: then nothing of this happens.
  await db.query(
    `insert into coins (chain, txid, vout, transaction_id)
     select $1, txid, vout, $2 from unnest($3::text[], $4::integer[]) as given (txid, vout)`,
    [chain, transactionId, coins.map(({ txid }) => txid), coins.map(({ vout }) => vout)],
  );
}

/** What the database knows of the places of a wallet. Hold the wallet's lock. */
export function placesOf(db: Queryable, place: { walletId: string; chain: string }): Places {
  return {
    nextNonce: (minedCount) => nextNonce(db, { ...place, minedCount }),
    async freeCoins(coins) {
      const { rows } = await db.query<Coin>(
        `select txid, vout from coins join unnest($2::text[], $3::integer[]) as given (txid, vout) using (txid, vout)
         where chain = $1`,
        [place.chain, coins.map(({ txid }) => txid), coins.map(({ vout }) => vout)],
      );
      const taken = new Set(rows.map(({ txid, vout }) => `${txid}:${vout}`));
      return coins.filter(({ txid, vout }) => !taken.has(`${txid}:${vout}`));
    },
  };
}

/** Gives a payment of which nothing is stored another place instead of one that has become outdated. */
export async function moveSlot(
  db: Queryable,
  { transactionId, payload, former }: { transactionId: string; payload: TransactionPayload; former: string },
): Promise<void> {
  await db.query(
    `update slots set payload = $2, version = version + 1,
       former_slots = (former_slots || $3::text)[greatest(cardinality(former_slots) + 2 - $4, 1):]
     where transaction_id = $1`,
    [transactionId, JSON.stringify(payload), former, replacedSlotsMax],
  );
}

/** Whether the wallet has given out higher nonces: they wait until this one is used. Never so where there are none. */
export async function hasLaterSlots(
  db: Queryable,
  { wallet_id: walletId, chain, nonce }: Pick<SlotRow, 'wallet_id' | 'chain' | 'nonce'>,
): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>(
    `select exists (
       select from slots where wallet_id = $1 and chain = $2 and nonce > $3 and closed_at is null) as found`,
    [walletId, chain, nonce],
  );
  return rows[0]!.found;
}

/**
 * Asks for a replacement at a payment's nonce. What uses the nonce up is not taken back by a wish for speed, and what is
 * under way is not asked for again. Hold the transaction's lock.
 * @param end how the payment ends if the replacement is the one that is mined
 */
export async function wishFor(
  db: Queryable,
  {
    transactionId,
    wanted,
    end,
  }: {
    transactionId: string;
    wanted: NonNullable<SlotRow['wanted']>;
    end?: { readonly code: FailureCode; readonly message: string };
  },
): Promise<void> {
  await db.query(
    `update slots set wanted = $2, wanted_at = now(), end_code = coalesce($3, end_code), end_message = coalesce($4, end_message)
     where transaction_id = $1 and closed_at is null
       and case when $2 = 'speed_up' then wanted is null
                else purpose = 'payment' and coalesce(wanted, '') not in ('cancel', 'fill') end`,
    [transactionId, wanted, end?.code ?? null, end?.message ?? null],
  );
}

/** Payments whose replacement was asked for lately and not begun: their workflows may not have heard of it. */
export async function listUnheardWishes(db: Queryable, { limit }: { limit: number }): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select transaction_id as id from slots
     where closed_at is null and wanted is not null
       and wanted_at between now() - interval '2 minutes' and now() - interval '5 seconds'
     order by wanted_at limit $1`,
    [limit],
  );
  return rows.map((row) => row.id);
}

/** Nobody wants the nonce's transaction replaced any more. */
export async function dropWish(db: Queryable, { transactionId }: { transactionId: string }): Promise<void> {
  await db.query('update slots set wanted = null where transaction_id = $1', [transactionId]);
}

/** Fulfils the wish: what is to be signed at this nonce from now on. */
export async function putPayload(
  db: Queryable,
  {
    transactionId,
    payload,
    purpose,
  }: { transactionId: string; payload: TransactionPayload; purpose: SlotRow['purpose'] },
): Promise<void> {
  await db.query(
    `update slots set payload = $2, purpose = $3, version = version + 1, wanted = null where transaction_id = $1`,
    [transactionId, JSON.stringify(payload), purpose],
  );
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
