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
    select r.transaction_id as id from reservations r join transactions t on t.id = r.transaction_id
    where r.state = 'reserved' and t.status <> 'pending'`,
  'a settled reservation of a payment that is not confirmed': `
    select r.transaction_id as id from reservations r join transactions t on t.id = r.transaction_id
    where r.state = 'settled' and t.status <> 'confirmed'`,
  'a released reservation of a payment that has not failed': `
    select r.transaction_id as id from reservations r join transactions t on t.id = r.transaction_id
    where r.state = 'released' and t.status <> 'failed'`,
  'a payment that was allowed and has no reservation': `
    select t.id from transactions t
    where t.status <> 'failed' and t.decision is not null
      and not exists (select from reservations r where r.transaction_id = t.id)`,
  'an open hold of a payment that has ended': `
    select h.owner_id as id from holds h join transactions t on t.id = h.owner_id
    where h.closed_at is null and t.status <> 'pending'`,
  'an open hold of a payment that does not exist': `
    select h.owner_id as id from holds h
    where h.closed_at is null and not exists (select from transactions t where t.id = h.owner_id)`,
  'an open nonce of a payment that has ended': `
    select s.transaction_id as id from slots s join transactions t on t.id = s.transaction_id
    where s.closed_at is null and t.status <> 'pending'`,
  'an open question about a payment that has ended': `
    select a.id from approvals a join transactions t on t.id = a.transaction_id
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
