import type { Queryable } from './pool.ts';

/** What a payment may take out of its wallet, by asset (`native`, or a contract). */
export interface Hold {
  readonly asset: string;
  /** More than zero. */
  readonly amountMinor: bigint;
}

/** Closed holds are kept this long: no balance is in use that was read longer ago. */
const keptClosed = '10 minutes';

/**
 * Minor units of an asset that payments of a wallet may still take out of the balance as it was at a block: all open
 * holds, but for those whose payment that block already shows.
 */
export async function heldBy(
  db: Queryable,
  {
    walletId,
    chain,
    asset,
    atBlock,
    exceptOwnerId,
  }: { walletId: string; chain: string; asset: string; atBlock: number; exceptOwnerId?: string },
): Promise<bigint> {
  const { rows } = await db.query<{ held: string }>(
    `select coalesce(sum(amount_minor), 0) as held from (
       select h.owner_id, h.amount_minor from holds h left join transactions t on t.id = h.owner_id
       left join x402_payments p on p.id = h.owner_id
       where h.wallet_id = $1 and h.chain = $2 and h.asset = $3 and h.closed_block is null
         and coalesce(t.block_number, p.block_number, $4 + 1) > $4
       union all
       select owner_id, amount_minor from holds
       where wallet_id = $1 and chain = $2 and asset = $3 and closed_block > $4) each_hold
     where owner_id is distinct from $5`,
    [walletId, chain, asset, atBlock, exceptOwnerId ?? null],
  );
  return BigInt(rows[0]!.held);
}

/** Whether payments of a wallet may be in blocks up to this one that the chain's watcher has not noted yet. */
export async function isUnnoted(
  db: Queryable,
  { walletId, chain, atBlock }: { walletId: string; chain: string; atBlock: number },
): Promise<boolean> {
  const { rows } = await db.query<{ is_unnoted: boolean }>(
    `select coalesce((select number from chain_heads where chain = $2), 0) < $3 and exists (
       select from holds h join attempts a on a.transaction_id = h.owner_id
       where h.wallet_id = $1 and h.chain = $2 and h.closed_block is null
         and a.final_at is null and a.block_number is null) as is_unnoted`,
    [walletId, chain, atBlock],
  );
  return rows[0]!.is_unnoted;
}

/** Takes or renews a payment's holds. Hold the wallet's lock. */
export async function putHolds(
  db: Queryable,
  { ownerId, walletId, chain, holds }: { ownerId: string; walletId: string; chain: string; holds: readonly Hold[] },
): Promise<void> {
  await db.query(
    `with swept as (
       delete from holds where wallet_id = $2 and closed_at < now() - interval '${keptClosed}')
     insert into holds (owner_id, wallet_id, chain, asset, amount_minor)
     select $1, $2, $3, asset, amount from unnest($4::text[], $5::numeric[]) as given (asset, amount)
     on conflict (owner_id, chain, asset) do update set amount_minor = excluded.amount_minor`,
    [ownerId, walletId, chain, holds.map(({ asset }) => asset), holds.map((each) => each.amountMinor.toString())],
  );
}

/** Raises what a payment may take of an asset; never lowers it. Hold the wallet's lock. */
export async function raiseHold(
  db: Queryable,
  hold: { ownerId: string; walletId: string; chain: string; asset: string; amountMinor: bigint },
): Promise<void> {
  await db.query(
    `insert into holds (owner_id, wallet_id, chain, asset, amount_minor) values ($1, $2, $3, $4, $5)
     on conflict (owner_id, chain, asset) do update
       set amount_minor = greatest(holds.amount_minor, excluded.amount_minor)`,
    [hold.ownerId, hold.walletId, hold.chain, hold.asset, hold.amountMinor.toString()],
  );
}

/** The payment will take nothing out of its wallet (any more). */
export async function dropHolds(db: Queryable, { ownerId }: { ownerId: string }): Promise<void> {
  await db.query('delete from holds where owner_id = $1', [ownerId]);
}

/** The payment took its money in this block; balances read before it do not show that yet. */
export async function closeHolds(
  db: Queryable,
  { ownerId, block, spent }: { ownerId: string; block: string; spent: readonly Hold[] },
): Promise<void> {
  await db.query(
    `with gone as (delete from holds where owner_id = $1 and asset <> all ($3::text[]))
     update holds h set amount_minor = given.amount, closed_block = $2, closed_at = now()
     from unnest($3::text[], $4::numeric[]) as given (asset, amount)
     where h.owner_id = $1 and h.asset = given.asset and h.closed_at is null`,
    [ownerId, block, spent.map(({ asset }) => asset), spent.map((each) => each.amountMinor.toString())],
  );
}
