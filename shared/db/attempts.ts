import type { Inclusion } from '../chain/adapter.ts';
import type { Offer } from '../chain/family.ts';
import type { Queryable } from './pool.ts';

/** A row of `attempts`. Columns of type numeric and bigint are decimal strings. */
export interface AttemptRow {
  readonly chain: string;
  readonly hash: string;
  readonly transaction_id: string;
  readonly raw: string;
  /** Whether the bytes pay, or only use the nonce up. */
  readonly purpose: 'payment' | 'noop';
  /** Which of its slot's payloads this is. */
  readonly version: number;
  /** Null for bytes that an earlier version signed. */
  readonly offer: Offer | null;
  readonly created_at: Date;
  readonly sent_at: Date | null;
  readonly block_number: string | null;
  readonly block_hash: string | null;
  readonly succeeded: boolean | null;
  readonly fee_minor: string | null;
  readonly final_at: Date | null;
  /** The chain's newest block when the attempt was first seen waiting. */
  readonly waiting_block: string | null;
}

/** Channel on which a stored attempt is announced; the payload is the chain. */
export const attemptsChannel = 'attempts';

/** Condition on `attempts a` of the chain `$1`: open, while its payment is pending and no attempt of it is final. */
export const isOpen = `a.chain = $1 and a.final_at is null
  and exists (select from transactions t where t.id = a.transaction_id and t.status = 'pending')`;

/** All attempts of a payment; one that is in a block comes first. */
export async function findAttempts(db: Queryable, { transactionId }: { transactionId: string }): Promise<AttemptRow[]> {
  const { rows } = await db.query<AttemptRow>(
    'select * from attempts where transaction_id = $1 order by block_number nulls last, created_at, hash',
    [transactionId],
  );
  return rows;
}

export async function hasAttempts(db: Queryable, { transactionId }: { transactionId: string }): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>(
    'select exists (select from attempts where transaction_id = $1) as found',
    [transactionId],
  );
  return rows[0]!.found;
}

/** What storing signed bytes has changed. */
export interface StoredAttempt {
  /** They were not there before. */
  readonly isNew: boolean;
  /** They are the first ones of their payment that pay: from now on it is being sent. */
  readonly isFirstPayment: boolean;
}

/**
 * Stores signed bytes before they are sent, moves the payment to `broadcast` and announces the attempt, all at once.
 * A repeat changes nothing, and a payment that is in a block already stays as it is.
 * @returns undefined when the payment is not pending any more: nothing was stored, nothing may be sent
 */
export async function storeAttempt(
  db: Queryable,
  {
    transactionId,
    hash,
    raw,
    purpose,
    version,
    offer = null,
  }: { transactionId: string; hash: string; raw: string } & Pick<AttemptRow, 'purpose' | 'version'> &
    Partial<Pick<AttemptRow, 'offer'>>,
): Promise<StoredAttempt | undefined> {
  // The lock gives the row as the last writer has left it: of two at once, one finds that a hash is there.
  const { rows } = await db.query<StoredAttempt>(
    `with pending as (select id, chain, hash from transactions where id = $1 and status = 'pending' for update),
     stored as (
       insert into attempts (chain, hash, transaction_id, raw, purpose, version, offer)
       select chain, $2, id, $3, $5, $6, $7::jsonb from pending
       on conflict (chain, hash) do nothing
       returning hash),
     moved as (
       update transactions
       set hash = case when $5 = 'payment' then $2 else hash end, status_detail = 'broadcast', updated_at = now()
       where id in (select id from pending) and status_detail <> 'confirming')
     select pg_notify($4, chain), exists (select from stored) as "isNew",
            $5 = 'payment' and hash is null as "isFirstPayment"
     from pending`,
    [transactionId, hash, raw, attemptsChannel, purpose, version, offer && JSON.stringify(offer)],
  );
  return rows[0] && { isNew: rows[0].isNew, isFirstPayment: rows[0].isFirstPayment };
}

/** Notes that a node has the bytes; the first time counts. */
export async function markSent(
  db: Queryable,
  { chain, hash, sentAt }: { chain: string; hash: string; sentAt: Date },
): Promise<void> {
  await db.query('update attempts set sent_at = $3 where chain = $1 and hash = $2 and sent_at is null', [
    chain,
    hash,
    sentAt,
  ]);
}

/** Whether any payment of the chain waits for confirmation. */
export async function hasOpenAttempts(db: Queryable, { chain }: { chain: string }): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>(
    `select exists (select from attempts a where ${isOpen}) as found`,
    [chain],
  );
  return rows[0]!.found;
}

/** One batch of the chain's open attempts in the order of their hashes. @param after last hash of the batch before */
export async function listOpenAttempts(
  db: Queryable,
  { chain, after, limit }: { chain: string; after: string; limit: number },
): Promise<AttemptRow[]> {
  const { rows } = await db.query<AttemptRow>(
    `select a.* from attempts a where ${isOpen} and a.hash > $2 order by a.hash limit $3`,
    [chain, after, limit],
  );
  return rows;
}

/** Which of a block's transactions are open attempts of ours. */
export async function matchOpenAttempts(
  db: Queryable,
  { chain, hashes }: { chain: string; hashes: readonly string[] },
): Promise<string[]> {
  const { rows } = await db.query<{ hash: string }>(
    `select a.hash from attempts a where ${isOpen} and a.hash = any($2::text[])`,
    [chain, hashes],
  );
  return rows.map((row) => row.hash);
}

/** Open attempts that were last seen in these blocks, both ends counted, lowest first. */
export async function listIncludedAttempts(
  db: Queryable,
  { chain, fromBlock, toBlock, limit }: { chain: string; fromBlock: number; toBlock: number; limit: number },
): Promise<AttemptRow[]> {
  const { rows } = await db.query<AttemptRow>(
    `select a.* from attempts a where ${isOpen} and a.block_number between $2 and $3
     order by a.block_number, a.hash limit $4`,
    [chain, fromBlock, toBlock, limit],
  );
  return rows;
}

/**
 * Notes the block of each attempt, and moves its payment to `confirming` with the facts of the receipt.
 * An attempt that is final stays as it is.
 * @param headNumber newest block, from which the confirmations are counted
 */
export async function storeInclusions(
  db: Queryable,
  { chain, headNumber, inclusions }: { chain: string; headNumber: number; inclusions: readonly Inclusion[] },
): Promise<void> {
  await db.query(
    `with given as (
       select * from jsonb_to_recordset($3::jsonb)
         as g (hash text, block_number bigint, block_hash text, succeeded boolean, fee_minor numeric)),
     included as (
       update attempts a
       set block_number = g.block_number, block_hash = g.block_hash, succeeded = g.succeeded, fee_minor = g.fee_minor
       from given g where a.chain = $1 and a.hash = g.hash and a.final_at is null
       returning a.transaction_id, a.hash, a.block_number, a.fee_minor)
     update transactions t
     set hash = i.hash, block_number = i.block_number, fee_minor = i.fee_minor, status_detail = 'confirming',
         notice = null, unfunded_since = null, confirmations = greatest($2::bigint - i.block_number + 1, 1), updated_at = now()
     from included i where t.id = i.transaction_id and t.status = 'pending'`,
    [chain, headNumber, rowsOf(inclusions)],
  );
}

/** Takes back what was noted about attempts whose block is gone. Final ones stay. */
export async function clearInclusions(
  db: Queryable,
  { chain, hashes }: { chain: string; hashes: readonly string[] },
): Promise<void> {
  await db.query(
    `with cleared as (
       update attempts
       set block_number = null, block_hash = null, succeeded = null, fee_minor = null, waiting_block = null
       where chain = $1 and hash = any($2::text[]) and final_at is null and block_number is not null
       returning transaction_id)
     update transactions set block_number = null, fee_minor = null, confirmations = 0, updated_at = now()
     where id in (select transaction_id from cleared) and status = 'pending'`,
    [chain, hashes],
  );
}

/** As parameter for `jsonb_to_recordset`. */
function rowsOf(inclusions: readonly Inclusion[]): string {
  return JSON.stringify(
    inclusions.map((each) => ({
      hash: each.hash,
      block_number: each.blockNumber,
      block_hash: each.blockHash,
      succeeded: each.succeeded,
      // As a string: a JSON number would lose digits.
      fee_minor: each.feeMinor.toString(),
    })),
  );
}

/**
 * Makes these attempts final, with the facts given here and no others, whatever was noted before or is being noted at
 * the same time. The other attempts of the same payment are closed with it: their nonce is taken for good.
 * @param headNumber newest block, from which the confirmations are counted
 * @returns the payments that can now be settled
 */
export async function storeFinality(
  db: Queryable,
  { chain, headNumber, finals }: { chain: string; headNumber: number; finals: readonly Inclusion[] },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `with final as (
       select a.transaction_id, g.*
       from attempts a join jsonb_to_recordset($3::jsonb)
         as g (hash text, block_number bigint, block_hash text, succeeded boolean, fee_minor numeric)
         on a.hash = g.hash
       where a.chain = $1 and a.final_at is null
       for update of a),
     closed as (
       update attempts a set final_at = now(),
         block_number = case when a.hash = f.hash then f.block_number end,
         block_hash = case when a.hash = f.hash then f.block_hash end,
         succeeded = case when a.hash = f.hash then f.succeeded end,
         fee_minor = case when a.hash = f.hash then f.fee_minor end
       from final f where a.chain = $1 and a.transaction_id = f.transaction_id and a.final_at is null),
     counted as (
       update transactions t
       set hash = f.hash, block_number = f.block_number, fee_minor = f.fee_minor, status_detail = 'confirming',
           notice = null, unfunded_since = null,
           confirmations = greatest(t.confirmations, $2::bigint - f.block_number + 1), updated_at = now()
       from final f where t.id = f.transaction_id and t.status = 'pending')
     select transaction_id as id from final`,
    [chain, headNumber, rowsOf(finals)],
  );
  return rows.map((row) => row.id);
}

/** Payments that are final on the chain and not settled yet: their workflows may have missed the news. */
export async function listUnsettled(
  db: Queryable,
  { chain, limit }: { chain: string; limit: number },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from transactions t
     where t.chain = $1 and t.status = 'pending' and t.status_detail = 'confirming'
       and exists (select from attempts a where a.transaction_id = t.id and a.final_at is not null)
     limit $2`,
    [chain, limit],
  );
  return rows.map((row) => row.id);
}
