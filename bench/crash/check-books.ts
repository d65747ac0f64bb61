import { findMismatches } from '../../shared/db/mismatches.ts';
import type { Queryable } from '../../shared/db/pool.ts';

/** Finds what has another number of events than one where one is due, and none where none is. */
function told(due: string): string {
  return `select due.id || ' has ' || count(e.id) || ' times ' || due.type as what
    from (${due}) due left join events e on e.resource_id = due.id and e.type = due.type
    group by due.id, due.type, due.is_due having count(e.id) <> due.is_due::int`;
}

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
    where e.agent_id = any($1) and e.type not in ('agent.status_changed', 'agent.low_gas', 'x402.session.exhausted')
    group by e.type, e.resource_id having count(*) > 1`,
  'a payment is not told of as it is': told(`
    select t.id, told.type, told.is_due from transactions t cross join lateral (values
      ('payment.pending', exists (select from attempts a where a.transaction_id = t.id and a.purpose = 'payment')),
      ('payment.completed', t.status = 'confirmed'),
      ('payment.failed', t.status = 'failed' and t.failure_code <> 'policy_violation'),
      ('policy.violated', t.status = 'failed' and t.failure_code = 'policy_violation')) as told (type, is_due)
    where t.agent_id = any($1)`),
  'an x402 payment is not told of as it is': told(`
    select p.id, told.type, told.is_due from x402_payments p cross join lateral (values
      ('x402.payment.completed', p.status = 'completed'),
      ('x402.payment.failed', p.status = 'failed' and p.failure_code <> 'policy_violation'),
      ('policy.violated', p.status = 'failed' and p.failure_code = 'policy_violation')) as told (type, is_due)
    where p.agent_id = any($1)`),
  'an x402 session is not told of as it is': told(`
    select s.id, told.type, told.is_due from x402_sessions s cross join lateral (values
      ('x402.session.created', true),
      ('x402.session.deleted', s.deleted_at is not null),
      ('x402.session.expired', s.released_at is not null and s.deleted_at is null)) as told (type, is_due)
    where s.agent_id = any($1)`),
  // Of what was withdrawn nothing but the asking is known: it may have been approved before.
  'a question is not told of as it is': told(`
    select a.id, told.type, told.is_due from approvals a cross join lateral (values
      ('approval.requested', true),
      ('approval.approved', a.status = 'approved'),
      ('approval.rejected', a.status = 'rejected'),
      ('approval.expired', a.status = 'expired')) as told (type, is_due)
    where a.agent_id = any($1) and a.status <> 'cancelled'`),
  'an agent is not told of as it is': told(`
    select id, 'agent.created' as type, true as is_due from agents where id = any($1)`),
  'a signature has not just one audit entry': `
    select a.hash as what from attempts a join transactions t on t.id = a.transaction_id
    where t.agent_id = any($1) and 1 <> (
      select count(*) from (select resource_id, action, metadata from audit_inbox
                            union all select resource_id, action, metadata from audit_logs) entry
      where entry.resource_id = t.id and entry.action = 'transaction.signed' and entry.metadata ->> 'hash' = a.hash)`,
  'the end of a payment has not just one audit entry': `
    select t.id || ', ' || t.status as what from transactions t
    where t.agent_id = any($1) and t.status <> 'pending' and t.failure_code is distinct from 'policy_violation' and 1 <> (
      select count(*) from (select resource_id, action from audit_inbox
                            union all select resource_id, action from audit_logs) entry
      where entry.resource_id = t.id and entry.action = 'transaction.' || t.status)`,
  'an event is delivered twice to one webhook': `
    select d.event_id || ' to ' || d.webhook_id as what from webhook_deliveries d join events e on e.id = d.event_id
    where e.agent_id = any($1) and d.kind = 'event'
    group by d.event_id, d.webhook_id having count(*) > 1`,
  'a delivery is for nobody, or of nothing': `
    select d.id as what from webhook_deliveries d
    left join events e on e.id = d.event_id left join webhooks w on w.id = d.webhook_id
    where d.account_id in (select account_id from agents where id = any($1))
      and (e.id is null or w.account_id is distinct from e.account_id)`,
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
