import { lockAccount } from '../../shared/db/accounts.ts';
import { deleteAccountApiKeys } from '../../shared/db/api-keys.ts';
import type { Acting } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { noteDeletedKey } from './change-api-keys.ts';
import { endSessions } from './end-sessions.ts';

/**
 * Deletes every API key of an account and signs everybody out of it, at once and in one database transaction, with an audit
 * entry for each. Who belongs to it stays, and can sign in again.
 * @param note why, for the entries
 * @returns how many of each; undefined where there is no such account
 */
export function revokeAll(
  pool: Pool,
  { accountId, acting, note }: { accountId: string; acting: Acting; note: string },
): Promise<{ keys: number; sessions: number } | undefined> {
  const reason = 'revoked_by_operator';
  return inTransaction(pool, async (db) => {
    // Whoever is just making a key has made it by now, or waits until this is done.
    if (!(await lockAccount(db, { id: accountId }))) return undefined;
    const keys = await deleteAccountApiKeys(db, { accountId });
    for (const row of keys) await noteDeletedKey(db, { acting, row, metadata: { reason, note } });
    const sessions = await endSessions(db, { accountId, reason, acting, metadata: { note } });
    return { keys: keys.length, sessions };
  });
}
