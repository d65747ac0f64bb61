import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { type RevocationReason, revokeAuthSessions } from '../../shared/db/auth-sessions.ts';
import { deleteOpenExchangeCodes } from '../../shared/db/exchange-codes.ts';
import type { Queryable } from '../../shared/db/pool.ts';

/**
 * Signs everybody out of an account, or one person, in the caller's database transaction and with an audit entry for each
 * session. A sign-in that is not exchanged yet begins none.
 * @param metadata what the entries are to say besides
 * @returns how many sessions were open
 */
export async function endSessions(
  db: Queryable,
  {
    accountId,
    userId,
    reason,
    acting,
    metadata = {},
  }: {
    accountId: string;
    userId?: string;
    reason: RevocationReason;
    acting: Acting;
    metadata?: Readonly<Record<string, unknown>>;
  },
): Promise<number> {
  const whose = { accountId, ...(userId !== undefined && { userId }) };
  // First, and so whatever was being exchanged is a session by now.
  await deleteOpenExchangeCodes(db, whose);
  const ended = await revokeAuthSessions(db, { ...whose, reason });
  for (const session of ended)
    await insertAudit(db, {
      accountId,
      action: 'session.revoked',
      acting,
      resourceType: 'session',
      resourceId: session.id,
      result: 'success',
      metadata: { reason, user_id: session.user_id, ...metadata },
    });
  return ended.length;
}
