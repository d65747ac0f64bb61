import { bySystem, insertAudit } from './db/audit.ts';
import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import { getX402Payment } from './db/x402-payments.ts';
import { getSession } from './db/x402-sessions.ts';
import type { EventType } from './domain/events.ts';
import { renderSession, renderX402Payment } from './render-x402.ts';

/** Tells the receivers of events what became of a session, with the session as it is now; that its time is over, the audit log. */
export async function noteSession(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `x402.session.${string}` },
): Promise<void> {
  const session = (await getSession(db, { id }))!;
  const about = { resourceType: 'x402_session' as const, resourceId: id, data: renderSession(session) };
  const { account_id: accountId, agent_id: agentId } = session;
  await insertEvent(db, { accountId, agentId, type, ...about });
  if (type !== 'x402.session.expired') return;
  await insertAudit(db, {
    ...{ accountId, agentId, acting: bySystem, resourceType: 'x402_session', resourceId: id },
    action: 'x402_session.expired',
    result: 'success',
    metadata: { budget_spent: about.data.budget_spent },
  });
}

/**
 * Tells the receivers of events how a payment out of a session has ended, with the payment as it is now; but for the header,
 * which is for whoever asked for it alone. A failure goes to the audit log as well; its signature is there already.
 */
export async function noteX402Payment(
  db: Queryable,
  { id, type }: { id: string; type: EventType & `x402.payment.${string}` },
): Promise<void> {
  const row = (await getX402Payment(db, { id }))!;
  const data = { ...renderX402Payment(row), payment_signature: null };
  const about = { resourceType: 'x402_payment' as const, resourceId: id, data };
  const { account_id: accountId, agent_id: agentId } = row;
  await insertEvent(db, { accountId, agentId, type, ...about });
  if (type !== 'x402.payment.failed') return;
  await insertAudit(db, {
    ...{ accountId, agentId, acting: bySystem, resourceType: 'x402_payment', resourceId: id },
    action: 'x402_payment.failed',
    result: 'error',
    metadata: { session_id: row.session_id, failure_code: row.failure_code },
  });
}
