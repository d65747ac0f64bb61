import type { Pool } from './pool.ts';
import { inTransaction } from './pool.ts';

/** One number about the installation: which sign, of what, and its value. */
export interface VitalSign {
  readonly sign: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A look that takes longer is given up: whoever asks, asks again soon. */
const statementTimeoutMs = 2_000;
/** Wallets that are named; all are counted. */
const maxWallets = 100;

const ageOf = (column: string) => `greatest(extract(epoch from now() - ${column}), 0)`;

/**
 * Counts and ages of what is under way: each reads what is open by an index of open things, never what has ended. One
 * statement, so that all is of one moment. Labels are of closed lists, but for wallets that are low on gas.
 */
const looks: readonly string[] = [
  // Payments under way, and how long the one waits that has waited longest: since it was asked for, since it last moved.
  `select s.sign, jsonb_build_object('chain', t.chain, 'state', t.state), s.value
   from (select chain, status_detail as state, count(*) as count, min(created_at) as oldest, min(updated_at) as unmoved
         from transactions where status = 'pending' group by 1, 2) t,
     lateral (values ('transactions_open', t.count), ('transactions_oldest', ${ageOf('t.oldest')}),
       ('transactions_unmoved', ${ageOf('t.unmoved')})) s (sign, value)`,
  `select s.sign, jsonb_build_object('chain', t.chain, 'state', t.state), s.value
   from (select chain, case status when 'pending' then status_detail else 'unsettled' end as state, count(*) as count,
           min(created_at) as oldest
         from x402_payments where status = 'pending' or settlement = 'unsettled' group by 1, 2) t,
     lateral (values ('x402_open', t.count), ('x402_oldest', ${ageOf('t.oldest')})) s (sign, value)`,
  `select 'x402_sessions_open', '{}'::jsonb, count(*) from x402_sessions where released_at is null`,
  // Places of wallets that are taken, and since when the payment of one has not moved.
  `select s.sign, jsonb_build_object('chain', t.chain), s.value
   from (select s.chain, count(*) as count, min(greatest(s.created_at, p.updated_at)) as unmoved
         from slots s join transactions p on p.id = s.transaction_id where s.closed_at is null group by 1) t,
     lateral (values ('slots_open', t.count), ('slots_unmoved', ${ageOf('t.unmoved')})) s (sign, value)`,
  `select s.sign, '{}'::jsonb, s.value
   from (select count(*) as count, min(created_at) as oldest from approvals where status = 'pending') t,
     lateral (values ('approvals_waiting', t.count), ('approvals_oldest', coalesce(${ageOf('t.oldest')}, 0))) s (sign, value)`,
  // Of questions that are still open: who has not been asked.
  `select 'approval_mails_' || m.status, '{}'::jsonb, count(*)
   from approvals a join approval_mails m on m.approval_id = a.id
   where a.status = 'pending' and m.status in ('waiting', 'failed') group by 1`,
  `select s.sign, '{}'::jsonb, s.value
   from (select count(*) as count, min(created_at) filter (where attempt = 0) as untried, min(next_attempt_at) as due
         from webhook_deliveries where status = 'pending') t,
     lateral (values ('deliveries_waiting', t.count), ('deliveries_untried', coalesce(${ageOf('t.untried')}, 0)),
       ('deliveries_overdue', coalesce(${ageOf('t.due')}, 0))) s (sign, value)`,
  `select s.sign, '{}'::jsonb, s.value
   from (select count(*) as count, min(created_at) as oldest from audit_inbox) t,
     lateral (values ('audit_unsealed', t.count), ('audit_oldest', coalesce(${ageOf('t.oldest')}, 0))) s (sign, value)`,
  `select s.sign, jsonb_build_object('chain', h.chain), s.value
   from chain_heads h,
     lateral (values ('watcher_block', h.number::numeric), ('watcher_block_age', ${ageOf('h.seen_at')})) s (sign, value)`,
  `select 'gas_low', jsonb_build_object('chain', chain), count(*) from gas_levels where is_low group by chain`,
  `select s.sign, jsonb_build_object('chain', g.chain, 'wallet', g.wallet_id), s.value
   from (select * from gas_levels where is_low order by low_since desc limit ${maxWallets}) g,
     lateral (values ('gas_balance', g.balance_minor), ('gas_transfers', g.transfers_left)) s (sign, value)`,
  `select 'gas_oldest_reading', jsonb_build_object('chain', chain), ${ageOf('min(read_at)')} from gas_levels group by chain`,
  `select 'frozen', jsonb_build_object('scope', scope), count(*) from freezes group by scope`,
  `select 'frozen_payments', '{}'::jsonb, count(*) from frozen_payments`,
  // A version is never below the time at which it came about.
  `select 'freeze_untold', '{}'::jsonb,
     case when told < version then greatest(extract(epoch from now()) - version / 1000.0, 0.001) else 0 end
   from freeze_orders`,
  `select 'signer_alerts', jsonb_build_object('kind', kind, 'party', coalesce(party::text, '')), count(*)
   from signer_alerts where closed_at is null and opened_at is not null group by kind, party`,
  // What an ended payment still takes of limits, the wallet, or people's time: it is given back by a schedule.
  `select 'leftovers', jsonb_build_object('kind', 'reservations'), count(*)
   from reservations r join payments p on p.id = r.payment_id where r.state = 'reserved' and not p.is_open`,
  `select 'leftovers', jsonb_build_object('kind', 'holds'), count(*)
   from holds h where h.closed_at is null and not exists (select from payments p where p.id = h.owner_id and p.is_open)
     and not exists (select from x402_sessions s where s.id = h.owner_id and s.released_at is null)`,
];

const statement = `select sign, labels, value::float8 as value from (${looks.join('\nunion all\n')}) each (sign, labels, value)`;

/** Looks at everything once. @throws DatabaseError also when that takes longer than two seconds */
export async function readVitalSigns(pool: Pool): Promise<VitalSign[]> {
  return inTransaction(pool, async (db) => {
    await db.query(`set transaction read only; set local statement_timeout = ${statementTimeoutMs}`);
    const { rows } = await db.query<VitalSign>(statement);
    return rows;
  });
}
