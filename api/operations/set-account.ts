import { type AccountSettings, lockAccountSettings, updateAccountSettings } from '../../shared/db/accounts.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';

/**
 * Sets what is given of an account and leaves the rest; with its audit entry, in one database transaction.
 * @returns all settings as they are then, unless there is no such account
 */
export function setAccount(
  pool: Pool,
  {
    id,
    defaultDeny,
    ownerEmail,
    acting,
  }: { id: string; defaultDeny: boolean | undefined; ownerEmail: string | undefined; acting: Acting },
): Promise<AccountSettings | undefined> {
  return inTransaction(pool, async (db) => {
    const before = await lockAccountSettings(db, { id });
    const after = await updateAccountSettings(db, { id, defaultDeny, ownerEmail });
    if (!before || !after) return undefined;
    await insertAudit(db, {
      accountId: id,
      action: 'account.updated',
      acting,
      resourceType: 'account',
      resourceId: id,
      result: 'success',
      changes: { before, after },
    });
    return after;
  });
}
