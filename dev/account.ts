import { hashApiKey } from '../shared/api-key.ts';
import { findApiKey } from '../shared/db/api-keys.ts';
import { bySystem } from '../shared/db/audit.ts';
import { createPool, inTransaction } from '../shared/db/pool.ts';
import { openAccount } from '../shared/open-account.ts';

/** Whom the built-in policy templates ask. */
export const OWNER_EMAIL = 'owner@example.com';

/** The account that a developer works with. */
interface DevAccount {
  accountId: string;
  apiKey: string;
}

/**
 * The account of the last start, when its key is still good; else a new one on the enterprise plan, so that no limit
 * is in a tester's way, and with an owner, whom the built-in templates ask.
 */
export async function ensureAccount(o: { databaseUrl: string; known: DevAccount | undefined }): Promise<DevAccount> {
  const pool = createPool({ url: o.databaseUrl, max: 1, application: 'purser-dev' });
  try {
    if (o.known) {
      const holder = await findApiKey(pool, { hash: hashApiKey(o.known.apiKey) });
      if (holder?.account_id === o.known.accountId) return o.known;
    }
    const { accountId, key } = await inTransaction(pool, (db) =>
      openAccount(db, {
        name: 'Local development',
        plan: 'enterprise',
        ownerEmail: OWNER_EMAIL,
        keyName: 'npm start',
        environment: 'sandbox',
        acting: bySystem,
      }),
    );
    return { accountId, apiKey: key };
  } finally {
    await pool.end();
  }
}
