import type { Queryable } from './pool.ts';

/** Examples that are named of each kind. */
const maxExamples = 10;

export interface Mismatch {
  /** What does not agree, in words. */
  readonly kind: string;
  readonly count: number;
  readonly examples: readonly string[];
}

/** Each finds the ids of what must not be; the agent's id where a sum is wrong. */
const checks: Readonly<Record<string, string>> = {
  'an open reservation of a payment that has ended': `
    select r.payment_id as id from reservations r join payments t on t.id = r.payment_id
    where r.state = 'reserved' and not t.is_open`,
  'a settled reservation of a payment that was not made': `
    select r.payment_id as id from reservations r join payments t on t.id = r.payment_id
    where r.state = 'settled' and not t.is_paid`,
  'a released reservation of a payment that has not come to nothing': `
    select r.payment_id as id from reservations r join payments t on t.id = r.payment_id
    where r.state = 'released' and (t.is_open or t.is_paid)`,
  'a payment that was allowed and has no reservation': `
    select t.id from transactions t
    where t.status <> 'failed' and t.decision is not null
      and not exists (select from reservations r where r.payment_id = t.id)
    union all
    select t.id from x402_payments t
    where t.status <> 'failed' and not exists (select from reservations r where r.payment_id = t.id)`,
  'an open hold of a payment or session that has ended': `
    select h.owner_id as id from holds h join payments t on t.id = h.owner_id
    where h.closed_at is null and not t.is_open
    union all
    select h.owner_id from holds h join x402_sessions s on s.id = h.owner_id
    where h.closed_at is null and s.released_at is not null`,
  'an open hold of a payment that does not exist': `
    select h.owner_id as id from holds h
    where h.closed_at is null and not exists (select from payments t where t.id = h.owner_id)
      and not exists (select from x402_sessions s where s.id = h.owner_id)`,
  'an open x402 payment that holds no money': `
    select t.id from x402_payments t
    where (t.status = 'pending' or (t.status = 'completed' and t.settlement = 'unsettled'))
      and not exists (select from holds h where h.owner_id = t.id)`,
  'a budget that is not what its payments took': `
    select s.id from x402_sessions s left join (
      select session_id, sum(amount_minor + fee_minor) as spent from x402_payments
      where status = 'pending' or (status = 'completed' and settlement <> 'expired') group by session_id) p
      on p.session_id = s.id
    where s.spent_minor <> coalesce(p.spent, 0)`,
  'a session that does not hold the rest of its budget': `
    select s.id from x402_sessions s left join holds h on h.owner_id = s.id
    where s.released_at is null and s.budget_minor - s.spent_minor <> coalesce(h.amount_minor, 0)`,
  'an open slot of a payment that has ended': `
    select s.transaction_id as id from slots s join transactions t on t.id = s.transaction_id
    where s.closed_at is null and t.status <> 'pending'`,
  'an open question about a payment that has ended': `
    select a.id from approvals a join payments t on t.id = a.payment_id
    where a.status = 'pending' and t.status <> 'pending'`,
  'a sum of open reservations that is not the sum of its parts': `
    select agent_id as id from usage_open full join (
      select agent_id, token, sum(atoms) as atoms, count(*) as count from reservations where state = 'reserved'
      group by agent_id, token) parts using (agent_id, token)
    where coalesce(usage_open.atoms, 0) <> coalesce(parts.atoms, 0)
      or coalesce(usage_open.count, 0) <> coalesce(parts.count, 0)`,
  'a sum of settled reservations that is not the sum of its parts': `
    select agent_id as id from (
      select agent_id, token, level, sum(atoms) as atoms, sum(count) as count from usage_totals
      group by agent_id, token, level) sums
    full join (
      select agent_id, token, level, sum(atoms) as atoms, count(*) as count
      from reservations cross join generate_series(0, 3) as level where state = 'settled'
      group by agent_id, token, level) parts using (agent_id, token, level)
    where sums.atoms is distinct from parts.atoms or sums.count is distinct from parts.count`,
};

/** Everything about limits and holds that does not agree with the payments; empty when all is well. Reads all of it. */
export async function findMismatches(db: Queryable): Promise<Mismatch[]> {
  const found: Mismatch[] = [];
  for (const [kind, query] of Object.entries(checks)) {
    // One statement sees one moment, so that payments under way are never between two.
    const { rows } = await db.query<{ count: number; examples: string[] | null }>(
      `with wrong as (${query})
       select count(*)::int as count, (array_agg(distinct id))[1:$1] as examples from wrong`,
      [maxExamples],
    );
    const { count, examples } = rows[0]!;
    if (count > 0) found.push({ kind, count, examples: examples ?? [] });
  }
  return found;
}
