import { noteFor } from './change-freeze.ts';
import { accountsAfter, deleteFreezeNote, lockFreezeNote, noteToldTo } from './db/freeze-notes.ts';
import { inTransaction, type Pool } from './db/pool.ts';

/** Accounts that are told in one database transaction. */
const batchSize = 100;

/**
 * Tells every account of freezes of the whole installation: apart from the freeze itself, which must not wait for them.
 * Safe to repeat, and from several processes at once: each account is told once.
 * @param o.atMost so many accounts; the rest are left to who comes next
 */
export async function tellAccounts(pool: Pool, { atMost = Number.POSITIVE_INFINITY } = {}): Promise<void> {
  for (let told = 0; told < atMost && (await tellSome(pool)); told += batchSize);
}

async function tellSome(pool: Pool): Promise<boolean> {
  return inTransaction(pool, async (db) => {
    const note = await lockFreezeNote(db);
    if (!note) return false;
    const { change, subject: freeze, acting } = note;
    const accounts = await accountsAfter(db, { after: note.told_to, limit: batchSize });
    for (const accountId of accounts) await noteFor(db, { accountId, change, freeze, acting });
    const last = accounts.at(-1);
    if (last === undefined) await deleteFreezeNote(db, note);
    else await noteToldTo(db, { id: note.id, accountId: last });
    return true;
  });
}
