import { hashApiKey } from '../shared/api-key.ts';
import { findApiKey } from '../shared/db/api-keys.ts';
import { bySystem } from '../shared/db/audit.ts';
import { insertMember } from '../shared/db/members.ts';
import { createPool, inTransaction } from '../shared/db/pool.ts';
import { moveUsers } from '../shared/db/users.ts';
import { openAccount } from '../shared/open-account.ts';

/** Whom the built-in policy templates ask. */
export const OWNER_EMAIL = 'owner@example.com';
/** Somebody else, who may approve payments and change nothing. */
export const APPROVER_EMAIL = 'approver@example.com';

/** The account that a developer works with. */
interface DevAccount {
  accountId: string;
  apiKey: string;
}

/**
 * The account of the last start, when its key is still good; else a new one on the enterprise plan, so that no limit
 * is in a tester's way, and with an owner, whom the built-in templates ask, and an approver.
 */
export async function ensureAccount(o: {
  databaseUrl: string;
  known: DevAccount | undefined;
  /** Who sets limits inside the signers; default nobody. */
  ownerKey?: string;
}): Promise<DevAccount> {
  const pool = createPool({ url: o.databaseUrl, max: 1, application: 'purser-dev' });
  try {
    if (o.known) {
      const holder = await findApiKey(pool, { hash: hashApiKey(o.known.apiKey) });
      if (holder?.account_id === o.known.accountId) return o.known;
    }
    const { accountId, key } = await inTransaction(pool, async (db) => {
      const opened = await openAccount(db, {
        name: 'Local development',
        plan: 'enterprise',
        ownerEmail: OWNER_EMAIL,
        ...(o.ownerKey !== undefined && { ownerKey: o.ownerKey }),
        keyName: 'npm start',
        environment: 'sandbox',
        acting: bySystem,
      });
      await insertMember(db, { accountId: opened.accountId, email: APPROVER_EMAIL, role: 'approver' });
      return opened;
    });
    return { accountId, apiKey: key };
  } finally {
    await pool.end();
  }
}

/** Has those who signed in before a restart be known after it, also where the identity provider has another port now. */
export async function keepPeople(o: { databaseUrl: string; from: string | undefined; to: string }): Promise<void> {
  if (o.from === undefined || o.from === o.to) return;
  const pool = createPool({ url: o.databaseUrl, max: 1, application: 'purser-dev' });
  try {
    await moveUsers(pool, { from: o.from, to: o.to });
  } finally {
    await pool.end();
  }
}
