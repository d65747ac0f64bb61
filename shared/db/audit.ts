import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Adds an entry about what the service itself decided, in the database transaction of that decision. */
export async function insertAudit(
  db: Queryable,
  entry: {
    accountId: string;
    action: 'transaction.evaluated';
    resourceType: 'transaction';
    resourceId: string;
    agentId: string;
    result: 'success' | 'denied';
    metadata: unknown;
  },
): Promise<void> {
  await db.query(
    `insert into audit_logs (id, account_id, action, actor_type, resource_type, resource_id, agent_id, result, metadata)
     values ($1, $2, $3, 'system', $4, $5, $6, $7, $8)`,
    [
      newId('aud'),
      entry.accountId,
      entry.action,
      entry.resourceType,
      entry.resourceId,
      entry.agentId,
      entry.result,
      JSON.stringify(entry.metadata),
    ],
  );
}
