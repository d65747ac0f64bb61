import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import { getX402Payment } from './db/x402-payments.ts';
import { getSession } from './db/x402-sessions.ts';
import type { EventType } from './domain/events.ts';
import { renderSession, renderX402Payment } from './render-x402.ts';

/** Tells the receivers of events what became of a session, with the session as it is now. */
export async function noteSession(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `x402.session.${string}` },
): Promise<void> {
  const session = (await getSession(db, { id }))!;
  const about = { resourceType: 'x402_session' as const, resourceId: id, data: renderSession(session) };
  await insertEvent(db, { accountId: session.account_id, agentId: session.agent_id, type, ...about });
}

/**
 * Tells the receivers of events how a payment out of a session has ended, with the payment as it is now; but for the header,
 * which is for whoever asked for it alone.
 */
export async function noteX402Payment(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `x402.payment.${string}` },
): Promise<void> {
  const row = (await getX402Payment(db, { id }))!;
  const data = { ...renderX402Payment(row), payment_signature: null };
  const about = { resourceType: 'x402_payment' as const, resourceId: id, data };
  await insertEvent(db, { accountId: row.account_id, agentId: row.agent_id, type, ...about });
}
