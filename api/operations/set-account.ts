import { type AccountChange, type AccountRow, lockAccount, updateAccount } from '../../shared/db/accounts.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';

/**
 * Sets what is given of an account and leaves the rest; with its audit entry, in one database transaction.
 * @returns the account as it is then, unless there is none
 */
export function setAccount(
  pool: Pool,
  { id, change, acting }: { id: string; change: AccountChange; acting: Acting },
): Promise<AccountRow | undefined> {
  return inTransaction(pool, async (db) => {
    const before = await lockAccount(db, { id });
    const after = await updateAccount(db, { id, change });
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
