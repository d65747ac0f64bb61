import type { AuditEntry } from './audit-chain.ts';
import type { AuditLogRow } from './db/audit-logs.ts';

/** An entry of the audit log as on the wire, before it has its hash. */
export function renderAuditContent(row: Omit<AuditLogRow, 'hash'>): Omit<AuditEntry, 'hash'> {
  return {
    id: row.id,
    seq: Number(row.seq),
    action: row.action,
    actor: { type: row.actor_type, id: row.actor_id, name: row.actor_name },
    resource: { type: row.resource_type, id: row.resource_id },
    agent_id: row.agent_id,
    result: row.result,
    ip_address: row.ip_address,
    user_agent: row.user_agent,
    request_id: row.request_id,
    changes: row.changes,
    metadata: row.metadata,
    prev_hash: row.prev_hash,
    created_at: instantOf(row.created_at),
  };
}

/** An entry of the audit log as on the wire, the same wherever it is shown: its hash is of this. */
export function renderAudit(row: AuditLogRow): AuditEntry {
  const { created_at, ...content } = renderAuditContent(row);
  return { ...content, hash: row.hash, created_at };
}

/** What somebody has written into the database by hand need not be an instant; it is shown all the same. */
function instantOf(value: unknown): string {
  return value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : String(value);
}
