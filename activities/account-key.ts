import { claimSpareKey, countSpareKeys, findAccountKey, insertAccountKey } from '../shared/db/account-keys.ts';
import { findAccount } from '../shared/db/accounts.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { GeneratedKey } from './generate-key.ts';

/** The account's key, or a spare one made its own. @returns the key's id, if there is one */
export function createClaimKey({ pool }: { pool: Pool }) {
  return async function claimKey(accountId: string): Promise<string | undefined> {
    const key = (await findAccountKey(pool, { accountId })) ?? (await claimSpareKey(pool, { accountId }));
    return key?.id;
  };
}

/** Whose word about limits counts for the key that is made for an account; undefined: nobody's. */
export function createFindOwnerKey({ pool }: { pool: Pool }) {
  return async function findOwnerKey(accountId: string): Promise<string | undefined> {
    return (await findAccount(pool, { id: accountId }))?.owner_key ?? undefined;
  };
}

/** Publishes a generated key: from now on addresses are derived from it. A repeat changes nothing. */
export function createPublishKey({ pool }: { pool: Pool }) {
  return async function publishKey(accountId: string | null, key: GeneratedKey): Promise<void> {
    await insertAccountKey(pool, { id: key.keyId, accountId, publicKey: key.publicKey, chainCode: key.chainCode });
  };
}

/** How many spare keys are missing, so that the next accounts need not wait. */
export function createCountMissingKeys({ pool, spareKeys }: { pool: Pool; spareKeys: number }) {
  return async function countMissingKeys(): Promise<number> {
    return Math.max(0, spareKeys - (await countSpareKeys(pool)));
  };
}
