import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Everything that is logged, as `resource.verb` in the past. */
export type AuditAction =
  | 'account.created'
  | 'account.updated'
  | 'account.plan_changed'
  | 'account.frozen'
  | 'account.unfrozen'
  | 'account_key.refreshed'
  | 'api_key.created'
  | 'api_key.deleted'
  | 'member.invited'
  | 'member.updated'
  | 'member.removed'
  | 'member.joined'
  | 'user.signed_in'
  | 'agent.created'
  | 'agent.status_changed'
  | 'agent.updated'
  | 'agent.deleted'
  | 'agent.frozen'
  | 'agent.unfrozen'
  | 'policy.created'
  | 'policy.updated'
  | 'policy.deleted'
  | 'policy_template.created'
  | 'policy_template.updated'
  | 'policy_template.deleted'
  | 'policy_template.applied'
  | 'transaction.created'
  | 'transaction.evaluated'
  | 'transaction.signed'
  | 'transaction.confirmed'
  | 'transaction.failed'
  | 'transaction.cancel_requested'
  | 'transaction.speed_up_requested'
  | 'x402_session.created'
  | 'x402_session.deleted'
  | 'x402_session.expired'
  | 'x402_payment.created'
  | 'x402_payment.evaluated'
  | 'x402_payment.signed'
  | 'x402_payment.failed'
  | 'approval.approved'
  | 'approval.rejected'
  | 'webhook.created'
  | 'webhook.updated'
  | 'webhook.deleted'
  | 'webhook.secret_rotated'
  | 'webhook.tested'
  | 'webhook.disabled'
  | 'webhook_delivery.redelivered'
  | 'signer_alert.opened'
  | 'signer_alert.closed'
  | 'session.refreshed'
  | 'session.revoked'
  | 'user.signed_out'
  | 'credential.denied'
  | 'permission.denied';

export interface AuditActor {
  readonly type: 'user' | 'api_key' | 'approver' | 'system';
  readonly id: string | null;
  readonly name: string | null;
}

/** Who acts, and from where; all of it as it was told by whoever asked, who may say what they like in the last two. */
export interface Acting {
  readonly actor: AuditActor;
  readonly ipAddress: string | null;
  readonly userAgent: string | null;
  readonly requestId: string | null;
}

/** The service itself. */
export const bySystem: Acting = {
  actor: { type: 'system', id: null, name: null },
  ipAddress: null,
  userAgent: null,
  requestId: null,
};

/** Somebody at the console of the installation, by the name that the system knows them by. */
export function byOperator(name: string): Acting {
  return { ...bySystem, actor: { type: 'system', id: 'operator', name } };
}

export interface NewAuditEntry {
  readonly accountId: string;
  readonly action: AuditAction;
  readonly acting: Acting;
  readonly resourceType: string;
  readonly resourceId: string | null;
  readonly agentId?: string | null;
  readonly result: 'success' | 'denied' | 'error';
  /** What was and what is now, as on the wire. Never a secret. */
  readonly changes?: { readonly before: unknown; readonly after: unknown } | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/**
 * Adds an entry in the database transaction of what it reports. It takes its place in the account's chain a moment later
 * (see seal-audit.ts): writers of one account never wait for each other.
 */
export async function insertAudit(db: Queryable, entry: NewAuditEntry): Promise<void> {
  const { actor, ipAddress, userAgent, requestId } = entry.acting;
  await db.query(
    `insert into audit_inbox (id, account_id, action, actor_type, actor_id, actor_name, resource_type, resource_id,
                              agent_id, result, ip_address, user_agent, request_id, changes, metadata)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
    [
      newId('aud'),
      entry.accountId,
      entry.action,
      actor.type,
      actor.id,
      actor.name,
      entry.resourceType,
      entry.resourceId,
      entry.agentId ?? null,
      entry.result,
      ipAddress,
      userAgent,
      requestId,
      entry.changes ? JSON.stringify(entry.changes) : null,
      JSON.stringify(entry.metadata ?? {}),
    ],
  );
}
