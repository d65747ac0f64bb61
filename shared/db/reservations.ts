import { levelUnitsMs } from '../domain/policy/window-ranges.ts';
import type { Queryable } from './pool.ts';

/**
 * Takes a payment's amount from its agent's limits. What was taken before is taken once: a repeat moves its instant only,
 * as the second evaluation does. Hold the agent's lock.
 */
export async function reserve(
  db: Queryable,
  payment: { paymentId: string; accountId: string; agentId: string; token: string; atoms: bigint; now: Date },
): Promise<void> {
  await db.query(
    `with made as (
       insert into reservations (payment_id, account_id, agent_id, token, atoms, instant)
       values ($1, $2, $3, $4, $5, $6)
       on conflict (payment_id) do update set instant = excluded.instant where reservations.state = 'reserved'
       returning agent_id, token, atoms, xmax = 0 as is_new)
     insert into usage_open (agent_id, token, atoms, count)
     select agent_id, token, atoms, 1 from made where is_new
     on conflict (agent_id, token)
       do update set atoms = usage_open.atoms + excluded.atoms, count = usage_open.count + 1`,
    [payment.paymentId, payment.accountId, payment.agentId, payment.token, payment.atoms.toString(), payment.now],
  );
}

/**
 * Ends a payment's reservation: settled, it goes on counting until it is older than the window; released, it counts no
 * more. Only an open one can be ended, so that nothing is taken away twice. Hold the agent's lock.
 */
export async function closeReservation(
  db: Queryable,
  { paymentId, state }: { paymentId: string; state: 'settled' | 'released' },
): Promise<void> {
  await db.query(
    `with closed as (
       update reservations set state = $2, closed_at = now()
       where payment_id = $1 and state = 'reserved'
       returning agent_id, token, atoms, instant),
     opened as (
       update usage_open o set atoms = o.atoms - c.atoms, count = o.count - 1
       from closed c where o.agent_id = c.agent_id and o.token = c.token)
     insert into usage_totals (agent_id, token, level, slot, atoms, count)
     select agent_id, token, level - 1, floor(extract(epoch from instant) * 1000 / unit), atoms, 1
     from closed cross join unnest($3::bigint[]) with ordinality as levels (unit, level)
     where $2 = 'settled'
     on conflict (agent_id, token, level, slot)
       do update set atoms = usage_totals.atoms + excluded.atoms, count = usage_totals.count + 1`,
    [paymentId, state, levelUnitsMs],
  );
}
