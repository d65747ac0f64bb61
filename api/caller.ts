import type { AuditActor } from '../shared/db/audit.ts';
import type { Role, Scope } from '../shared/domain/access.ts';
import type { Plan, RequestLimits } from '../shared/domain/plans.ts';

/** Who asks: an account, by a key of it, by a person who is signed in, or by both. */
export interface Caller {
  readonly accountId: string;
  readonly account: CallingAccount;
  readonly key?: CallingKey;
  readonly user?: CallingUser;
}

/** What of an account every request is judged by. */
export interface CallingAccount {
  readonly plan: Plan;
  /** Of each of its keys, and of each of its people. */
  readonly limits: RequestLimits;
  /** Networks (CIDR) from which it may be used; none: from anywhere. */
  readonly ipAllowlist: readonly string[];
  readonly policyWrites: 'any' | 'bearer';
}

export interface CallingKey {
  readonly id: string;
  readonly name: string;
  /** Null: all. */
  readonly scopes: readonly Scope[] | null;
  /** The one agent that it is for; null for none in particular. */
  readonly agentId: string | null;
}

export interface CallingUser {
  readonly id: string;
  readonly sessionId: string;
  /** Lower case; undefined unless it is verified. */
  readonly email: string | undefined;
  readonly role: Role;
}

/** The agent to whose business the caller is limited, if to one. */
export function boundAgentOf({ key, user }: Caller): string | undefined {
  return user ? undefined : (key?.agentId ?? undefined);
}

/** A person who is signed in, whatever key they sent besides. */
export function actorOf({ user, key }: Pick<Caller, 'user' | 'key'>): AuditActor {
  if (user) return { type: 'user', id: user.id, name: user.email ?? null };
  return { type: 'api_key', id: key?.id ?? null, name: key?.name ?? null };
}
