import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { type RevocationReason, revokeAuthSession } from '../../shared/db/auth-sessions.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import type { TokenHolder } from './access-tokens.ts';

/** Ends somebody's session for a reason that is not their wish, and notes it. Of a session that is over nothing is noted. */
export async function revokeSession(
  db: Queryable,
  { holder, reason, acting }: { holder: TokenHolder; reason: RevocationReason; acting: Acting },
): Promise<void> {
  const { accountId, userId, sessionId } = holder;
  if (!(await revokeAuthSession(db, { id: sessionId, reason }))) return;
  await insertAudit(db, {
    accountId,
    action: 'session.revoked',
    acting,
    resourceType: 'session',
    resourceId: sessionId,
    result: 'success',
    metadata: { reason, user_id: userId },
  });
}
