import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { revokeAuthSession } from '../../shared/db/auth-sessions.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';

/** Ends the session of whoever asks: none of its tokens is taken any more, by any process. */
export async function signOut(
  pool: Pool,
  { accountId, sessionId, acting }: { accountId: string; sessionId: string; acting: Acting },
): Promise<void> {
  await inTransaction(pool, async (db) => {
    // Another request may have been faster.
    if (!(await revokeAuthSession(db, { id: sessionId, reason: 'signed_out' }))) return;
    await insertAudit(db, {
      ...{ accountId, action: 'user.signed_out', acting, result: 'success' },
      ...{ resourceType: 'session', resourceId: sessionId },
    });
  });
}
