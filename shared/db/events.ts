import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Kinds of events that are written so far; decisions, section 8. */
export type EventType =
  | 'policy.violated'
  | 'approval.requested'
  | 'approval.approved'
  | 'approval.rejected'
  | 'approval.expired'
  | 'agent.status_changed'
  | 'agent.low_gas'
  | 'x402.session.created'
  | 'x402.session.exhausted'
  | 'x402.session.expired'
  | 'x402.session.deleted'
  | 'x402.payment.completed'
  | 'x402.payment.failed';

/** Notes what happened, in the database transaction of the change that it reports. */
export async function insertEvent(
  db: Queryable,
  event: {
    accountId: string;
    type: EventType;
    resourceType: 'transaction' | 'approval' | 'agent' | 'x402_session' | 'x402_payment';
    resourceId: string;
    agentId: string;
    data: unknown;
  },
): Promise<void> {
  await db.query(
    `insert into events (id, account_id, type, resource_type, resource_id, agent_id, data)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [
      newId('evt'),
      event.accountId,
      event.type,
      event.resourceType,
      event.resourceId,
      event.agentId,
      JSON.stringify(event.data),
    ],
  );
}
