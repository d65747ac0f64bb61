import { freezeAndNote } from './change-freeze.ts';
import { bySystem } from './db/audit.ts';
import { putDatabaseIdentity, readDatabaseIdentity } from './db/installation.ts';
import { inTransaction, type Pool } from './db/pool.ts';

const reason =
  'the database is another one than before (a restore, or a standby that took over): compare it with the signers by npm run admin -- reconcile';

/** Whether a freeze is the one that was set because the database is another one than before. */
export function isOfAnotherDatabase(freeze: { readonly reason: string; readonly frozen_by: string }): boolean {
  return freeze.frozen_by === 'system' && freeze.reason === reason;
}

/**
 * Compares the database with the one that was known last. What is compared is in the database itself, so that a copy of it
 * that runs elsewhere, or was brought to an earlier time, tells another one than it remembers. Then the whole installation
 * is frozen, at once and in one database transaction.
 * Files that were put back in place while the server was down tell the same: freeze by hand before they are used.
 * @returns whether it was frozen by this call
 */
export async function noteDatabase(pool: Pool): Promise<boolean> {
  const identity = await readDatabaseIdentity(pool);
  if (!identity || identity.known === identity.found) return false;
  const isOther = identity.known !== null;
  return inTransaction(pool, async (db) => {
    if (isOther) await freezeAndNote(db, { scope: 'installation', reason, acting: bySystem });
    return (await putDatabaseIdentity(db, identity)) && isOther;
  });
}
