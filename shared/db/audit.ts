import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Adds an entry about what was decided, in the database transaction of that decision. */
export async function insertAudit(
  db: Queryable,
  entry: {
    accountId: string;
    action: 'transaction.evaluated' | 'x402_payment.evaluated' | 'approval.approved' | 'approval.rejected';
    /** Who did it; the service itself unless given. */
    actor?: { type: 'approver' | 'system'; id: string };
    resourceType: 'transaction' | 'approval' | 'x402_payment';
    resourceId: string;
    agentId: string;
    result: 'success' | 'denied';
    metadata: unknown;
  },
): Promise<void> {
  await db.query(
    `insert into audit_logs (id, account_id, action, actor_type, actor_id, resource_type, resource_id, agent_id, result,
                             metadata)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      newId('aud'),
      entry.accountId,
      entry.action,
      entry.actor?.type ?? 'system',
      entry.actor?.id ?? null,
      entry.resourceType,
      entry.resourceId,
      entry.agentId,
      entry.result,
      JSON.stringify(entry.metadata),
    ],
  );
}
