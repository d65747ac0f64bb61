import type { AuditActor } from '../shared/db/audit.ts';

/** Who asks: an account, by a key of it, by a person who is signed in, or by both. */
export interface Caller {
  readonly accountId: string;
  readonly keyId?: string;
  readonly keyName?: string;
  readonly user?: {
    readonly id: string;
    readonly sessionId: string;
    /** Lower case; undefined unless it is verified. */
    readonly email: string | undefined;
  };
}

/** A person who is signed in, whatever key they sent besides. */
export function actorOf({ user, keyId, keyName }: Caller): AuditActor {
  if (user) return { type: 'user', id: user.id, name: user.email ?? null };
  return { type: 'api_key', id: keyId ?? null, name: keyName ?? null };
}
