import type { GasTopUp } from '../domain/gas.ts';
import type { Queryable } from './pool.ts';

/** A wallet that is low, of an account that has somebody to fill it up. */
export interface GasWanted {
  readonly account_id: string;
  readonly wallet_id: string;
  readonly agent_id: string;
  readonly agent_name: string;
  readonly address: string;
  readonly chain: string;
  readonly low_since: Date;
}

/** How a payment that was to fill a wallet up has ended. */
export interface EndedGasFill extends Omit<GasWanted, 'low_since'> {
  readonly transaction_id: string;
  readonly funding_agent_id: string;
  readonly succeeded: boolean;
  readonly failure_code: string | null;
  readonly failure_message: string | null;
  /** Null where the wallet is not low any more. */
  readonly low_since: Date | null;
}

/** Notes how payments that fill wallets up have ended. @returns them, each to one caller only */
export async function closeGasFills(db: Queryable): Promise<EndedGasFill[]> {
  const { rows } = await db.query<EndedGasFill>(
    `with ended as (
       update gas_fills f set ended_at = now(), succeeded = t.status = 'confirmed'
       from transactions t
       where f.ended_at is null and t.id = f.transaction_id and t.status in ('confirmed', 'failed')
       returning f.*, t.agent_id as funding_agent_id, t.failure_code, t.failure_message)
     select e.transaction_id, e.account_id, e.wallet_id, e.chain, e.succeeded, e.funding_agent_id, e.failure_code,
            e.failure_message, w.agent_id, a.agent_name, w.address, g.low_since
     from ended e join wallets w on w.id = e.wallet_id join agents a on a.id = w.agent_id
     left join gas_levels g on g.wallet_id = e.wallet_id and g.chain = e.chain
     order by e.created_at, e.transaction_id`,
  );
  return rows;
}

/**
 * Why a wallet is not filled up now: a payment for it is under way, the last one failed a short while ago, or it
 * succeeded and the wallet was not read since.
 */
const mayBeFilled = `not exists (
  select from gas_fills f where f.wallet_id = g.wallet_id and f.chain = g.chain
    and (f.ended_at is null or f.ended_at >= g.read_at
      or (not f.succeeded and f.ended_at > now() - $1 * interval '1 millisecond')))`;

/** Wallets that are low and may be filled up, the longest low first. @param retryMs after one that failed @param after the last one of the page before */
export async function listGasWanted(
  db: Queryable,
  { retryMs, limit, after }: { retryMs: number; limit: number; after: GasWanted | undefined },
): Promise<GasWanted[]> {
  const { rows } = await db.query<GasWanted>(
    `select a.account_id, g.wallet_id, a.id as agent_id, a.agent_name, w.address, g.chain, g.low_since
     from gas_levels g join wallets w on w.id = g.wallet_id join agents a on a.id = w.agent_id
     join accounts o on o.id = a.account_id
     where g.is_low and a.status = 'active' and a.deleted_at is null and ${mayBeFilled}
       and ($3::timestamptz is null or (g.low_since, g.wallet_id, g.chain) > ($3, $4, $5))
       and exists (select from jsonb_array_elements(o.gas_top_ups) t
         where t->>'chain' = g.chain and t->>'funding_agent_id' <> a.id)
     order by g.low_since, g.wallet_id, g.chain limit $2`,
    [retryMs, limit, after?.low_since ?? null, after?.wallet_id ?? null, after?.chain ?? null],
  );
  return rows;
}

/** Whether it is still so. Hold the account's lock: then nobody else fills up a wallet of it. */
export async function isGasWanted(
  db: Queryable,
  { walletId, chain, retryMs }: { walletId: string; chain: string; retryMs: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from gas_levels g where g.wallet_id = $2 and g.chain = $3 and g.is_low and ${mayBeFilled}`,
    [retryMs, walletId, chain],
  );
  return rowCount === 1;
}

/** Whether the account may have one more top-up now. Hold its lock. */
export async function hasGasFillLeft(
  db: Queryable,
  { accountId, topUp }: { accountId: string; topUp: GasTopUp },
): Promise<boolean> {
  const { rows } = await db.query<{ made: number }>(
    `select count(*)::int as made from gas_fills
     where account_id = $1 and chain = $2 and created_at > now() - interval '24 hours'`,
    [accountId, topUp.chain],
  );
  return rows[0]!.made < topUp.max_per_day;
}

/** Notes what a stored payment is for. A second open one for a wallet violates `gas_fills_open`. */
export async function insertGasFill(
  db: Queryable,
  fill: { transactionId: string; accountId: string; walletId: string; chain: string },
): Promise<void> {
  await db.query('insert into gas_fills (transaction_id, account_id, wallet_id, chain) values ($1, $2, $3, $4)', [
    fill.transactionId,
    fill.accountId,
    fill.walletId,
    fill.chain,
  ]);
}
