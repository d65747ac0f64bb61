import { noteEpoch } from '../shared/db/account-keys.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';

/** Notes the epoch of a key's shares, and tells its account when it is another one than before. A repeat changes nothing. */
export function createNoteKeyRefresh({ pool }: { pool: Pool }) {
  return async function noteKeyRefresh({ keyId, epoch }: { keyId: string; epoch: number }): Promise<void> {
    await inTransaction(pool, async (db) => {
      const noted = await noteEpoch(db, { keyId, epoch });
      if (!noted?.accountId) return;
      await insertAudit(db, {
        ...{ accountId: noted.accountId, action: 'account_key.refreshed', acting: bySystem, result: 'success' },
        ...{ resourceType: 'account_key', resourceId: keyId },
        changes: { before: { epoch: noted.before }, after: { epoch } },
      });
    });
  };
}
