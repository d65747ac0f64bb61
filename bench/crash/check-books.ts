import { findMismatches } from '../../shared/db/mismatches.ts';
import type { Queryable } from '../../shared/db/pool.ts';

/** Each finds what a round that is over must not leave behind, by the ids of its agents. */
const leftovers: Readonly<Record<string, string>> = {
  'a slot is open': `
    select s.transaction_id || ', nonce ' || s.nonce as what
    from slots s join transactions t on t.id = s.transaction_id
    where t.agent_id = any($1) and s.closed_at is null`,
  'a hold is open': `
    select h.owner_id || ', ' || h.amount_minor || ' ' || h.asset as what from holds h
    join wallets w on w.id = h.wallet_id where w.agent_id = any($1) and h.closed_at is null`,
  'a reservation is open': `
    select payment_id as what from reservations where agent_id = any($1) and state = 'reserved'`,
  'a wallet has a gap': `
    select w.agent_id || ': ' || count(*) || ' slots up to nonce ' || max(s.nonce) as what
    from slots s join wallets w on w.id = s.wallet_id where w.agent_id = any($1)
    group by w.agent_id, s.chain having count(*) <> max(s.nonce) + 1`,
  'an event exists more than once': `
    select e.type || ' of ' || e.resource_id || ', ' || count(*) || ' times' as what from events e
    where e.agent_id = any($1) and e.type <> 'agent.status_changed' group by e.type, e.resource_id having count(*) > 1`,
  'a denial has no event': `
    select t.id as what from transactions t where t.agent_id = any($1) and t.failure_code = 'policy_violation'
      and not exists (select from events e where e.resource_id = t.id and e.type = 'policy.violated')`,
  'an event tells of a denial that is none': `
    select e.resource_id as what from events e join transactions t on t.id = e.resource_id
    where e.agent_id = any($1) and e.type = 'policy.violated' and t.failure_code is distinct from 'policy_violation'`,
};

/** What the database still holds for agents of which nothing is pending, and whatever disagrees in all of it. */
export async function checkBooks(db: Queryable, { agentIds }: { agentIds: readonly string[] }): Promise<string[]> {
  const problems: string[] = [];
  for (const [name, query] of Object.entries(leftovers)) {
    const { rows } = await db.query<{ what: string }>(query, [agentIds]);
    problems.push(...rows.map(({ what }) => `In the database ${name}: ${what}.`));
  }
  const mismatches = await findMismatches(db);
  return [
    ...problems,
    ...mismatches.map(
      ({ kind, count, examples }) => `In the database is ${kind}: ${count}, as ${examples.join(', ')}.`,
    ),
  ];
}
