import type { Queryable } from './pool.ts';

/** What an ended payment, or one that never was, still takes from limits, wallet or people. */
export interface Leftover {
  /** Payment by which the limit or the money is taken, or about which people are asked. */
  readonly owner_id: string;
  readonly reservations: number;
  readonly holds: number;
  readonly approvals: number;
}

/** Each kind of leftover with its owner, by the names of {@link Leftover}. */
const leftovers = `
  select r.payment_id as owner_id, 'reservations' as kind from reservations r
  join payments t on t.id = r.payment_id where r.state = 'reserved' and not t.is_open
  union all
  select h.owner_id, 'holds' from holds h
  where h.closed_at is null and not exists (select from payments t where t.id = h.owner_id and t.is_open)
    and not exists (select from x402_sessions s where s.id = h.owner_id and s.released_at is null)
  union all
  select a.payment_id, 'approvals' from approvals a
  join payments t on t.id = a.payment_id where a.status = 'pending' and t.status <> 'pending'`;

const counted = `select owner_id, (count(*) filter (where kind = 'reservations'))::int as reservations,
    (count(*) filter (where kind = 'holds'))::int as holds,
    (count(*) filter (where kind = 'approvals'))::int as approvals
  from (${leftovers}) each_one`;

/** One batch in the order of their owners. @param after last owner of the batch before */
export async function listLeftovers(
  db: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<Leftover[]> {
  const { rows } = await db.query<Leftover>(
    `${counted} where owner_id > $1 group by owner_id order by owner_id limit $2`,
    [after, limit],
  );
  return rows;
}

/** What there is of one owner now. Hold the agent's lock. */
export async function leftoversOf(db: Queryable, { ownerId }: { ownerId: string }): Promise<Leftover | undefined> {
  const { rows } = await db.query<Leftover>(`${counted} where owner_id = $1 group by owner_id`, [ownerId]);
  return rows[0];
}

/** A payment of either kind, as far as what it takes is concerned. Columns of type bigint are decimal strings. */
export interface HoldingPayment {
  readonly agent_id: string;
  readonly wallet_id: string;
  /** Of a payment out of an x402 session. */
  readonly session_id: string | null;
  readonly is_open: boolean;
  readonly is_paid: boolean;
  readonly block_number: string | null;
}

/** The payment by its id, of whichever kind it is. */
export async function findHoldingPayment(db: Queryable, { id }: { id: string }): Promise<HoldingPayment | undefined> {
  const { rows } = await db.query<HoldingPayment>(
    `select p.agent_id, w.id as wallet_id, x.session_id, p.is_open, p.is_paid, p.block_number
     from payments p join wallets w on w.agent_id = p.agent_id left join x402_payments x on x.id = p.id
     where p.id = $1`,
    [id],
  );
  return rows[0];
}

/**
 * Ends the open holds of an ended payment. Where it took its money in a block, they are kept for balances that were
 * read before that one, at their full amount: too much for some minutes, but never too little. Hold the agent's lock.
 * @param block null where nothing has left the wallet
 */
export async function endHolds(
  db: Queryable,
  { ownerId, block }: { ownerId: string; block: string | null },
): Promise<void> {
  if (block === null) await db.query('delete from holds where owner_id = $1 and closed_at is null', [ownerId]);
  else
    await db.query('update holds set closed_block = $2, closed_at = now() where owner_id = $1 and closed_at is null', [
      ownerId,
      block,
    ]);
}

/** The agent whose wallet an owner holds money of, where no payment tells. */
export async function agentOfHolds(db: Queryable, { ownerId }: { ownerId: string }): Promise<string | undefined> {
  const { rows } = await db.query<{ agent_id: string }>(
    'select agent_id from wallets where id in (select wallet_id from holds where owner_id = $1) limit 1',
    [ownerId],
  );
  return rows[0]?.agent_id;
}
