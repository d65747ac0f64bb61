import type { GasJudgement } from '../domain/gas.ts';
import type { Queryable } from './pool.ts';

/** A wallet that may need coins for fees on a chain. */
export interface GasWallet {
  readonly wallet_id: string;
  readonly agent_id: string;
  readonly account_id: string;
  readonly agent_name: string;
  readonly address: string;
}

/**
 * Wallets of active agents that were not read since a time, the longest ago first: of agents made for this chain, and of
 * those that have paid on it.
 */
export async function listGasWallets(
  db: Queryable,
  { chain, before, limit }: { chain: string; before: Date; limit: number },
): Promise<GasWallet[]> {
  const { rows } = await db.query<GasWallet>(
    `select w.id as wallet_id, a.id as agent_id, a.account_id, a.agent_name, w.address
     from agents a join wallets w on w.agent_id = a.id
     left join gas_levels g on g.wallet_id = w.id and g.chain = $1
     where a.status = 'active' and a.deleted_at is null and (g.read_at is null or g.read_at < $2)
       and (a.chain = $1 or exists (select from slots s where s.wallet_id = w.id and s.chain = $1))
     order by g.read_at nulls first, w.id limit $3`,
    [chain, before, limit],
  );
  return rows;
}

export interface GasLevelRow {
  /** Decimal string, in minor units. */
  readonly balance_minor: string;
  readonly is_low: boolean;
  readonly low_since: Date | null;
  readonly read_at: Date;
}

/**
 * What was known of a wallet, locked until the database transaction ends; nothing where it is read for the first time.
 * Of two at once the second one finds what the first has stored.
 */
export async function lockGasLevel(
  db: Queryable,
  { walletId, chain }: { walletId: string; chain: string },
): Promise<GasLevelRow | undefined> {
  await db.query(`select pg_advisory_xact_lock(hashtextextended('gas/' || $1 || '/' || $2, 0))`, [walletId, chain]);
  const { rows } = await db.query<GasLevelRow>(
    'select balance_minor, is_low, low_since, read_at from gas_levels where wallet_id = $1 and chain = $2',
    [walletId, chain],
  );
  return rows[0];
}

/** Stores what was read. Hold the level's lock. */
export async function storeGasLevel(
  db: Queryable,
  level: GasJudgement & { walletId: string; chain: string; balanceMinor: bigint; transferMinor: bigint; readAt: Date },
): Promise<void> {
  const { walletId, chain, balanceMinor, transferMinor, transfersLeft, isLow, readAt } = level;
  await db.query(
    `insert into gas_levels (wallet_id, chain, balance_minor, transfer_minor, transfers_left, is_low, low_since, read_at)
     values ($1, $2, $3, $4, $5, $6, case when $6 then $7::timestamptz end, $7)
     on conflict (wallet_id, chain) do update
     set balance_minor = excluded.balance_minor, transfer_minor = excluded.transfer_minor,
         transfers_left = excluded.transfers_left, is_low = excluded.is_low, read_at = excluded.read_at,
         low_since = case when excluded.is_low then coalesce(gas_levels.low_since, excluded.read_at) end`,
    [walletId, chain, balanceMinor.toString(), transferMinor.toString(), transfersLeft, isLow, readAt],
  );
}

/** Nothing is low any more of agents that pay no more: those are not read. @returns how many there were */
export async function forgetIdleGas(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `update gas_levels g set is_low = false, low_since = null
     from wallets w join agents a on a.id = w.agent_id
     where g.is_low and w.id = g.wallet_id and (a.status <> 'active' or a.deleted_at is not null)`,
  );
  return rowCount ?? 0;
}
