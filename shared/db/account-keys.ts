import type { Queryable } from './pool.ts';

/** An account's key: public halves only; each of its shares is with one signer. */
export interface AccountKeyRow {
  readonly id: string;
  readonly account_id: string | null;
  /** Uncompressed, 65 bytes, hex with 0x. */
  readonly public_key: `0x${string}`;
  /** BIP-32 chain code, 32 bytes, hex with 0x. */
  readonly chain_code: `0x${string}`;
  readonly next_index: number;
}

export async function findAccountKey(
  db: Queryable,
  { accountId }: { accountId: string },
): Promise<AccountKeyRow | undefined> {
  const { rows } = await db.query<AccountKeyRow>('select * from account_keys where account_id = $1', [accountId]);
  return rows[0];
}

/**
 * Gives a spare key to an account that has none. One whose limits somebody sets waits for a key of its own: a spare one
 * was made without knowing whose word counts.
 * @returns the key, if there was a spare one for it
 */
export async function claimSpareKey(
  db: Queryable,
  { accountId }: { accountId: string },
): Promise<AccountKeyRow | undefined> {
  const { rows } = await db.query<AccountKeyRow>(
    `update account_keys set account_id = $1
     where id = (select id from account_keys where account_id is null and retired_at is null
                 order by created_at limit 1 for update skip locked)
       and not exists (select from accounts where id = $1 and owner_key is not null)
     returning *`,
    [accountId],
  );
  return rows[0];
}

export async function countSpareKeys(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from account_keys where account_id is null and retired_at is null',
  );
  return rows[0]!.count;
}

/** Publishes a key that all three signers have stored; to an account, or as a spare. A repeat changes nothing. */
export async function insertAccountKey(
  db: Queryable,
  key: { id: string; accountId: string | null; publicKey: string; chainCode: string },
): Promise<void> {
  await db.query(
    `insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, $3, $4) on conflict do nothing`,
    [key.id, key.accountId, key.publicKey, key.chainCode],
  );
}

/** Takes the next child index of the account's key. @returns the key before the step, whose `next_index` is the taken one */
export async function takeChildIndex(
  db: Queryable,
  { accountId }: { accountId: string },
): Promise<AccountKeyRow | undefined> {
  const { rows } = await db.query<AccountKeyRow>(
    `update account_keys set next_index = next_index + 1 where account_id = $1
     returning id, account_id, public_key, chain_code, next_index - 1 as next_index`,
    [accountId],
  );
  return rows[0];
}

/** Whose keys these are, by the key's id; null for a spare one. A key that is not published is left out. */
export async function accountsOfKeys(
  db: Queryable,
  { keyIds }: { keyIds: readonly string[] },
): Promise<Map<string, string | null>> {
  const { rows } = await db.query<{ id: string; account_id: string | null }>(
    'select id, account_id from account_keys where id = any($1::text[])',
    [keyIds],
  );
  return new Map(rows.map(({ id, account_id }) => [id, account_id]));
}

/**
 * Notes that the shares of a key have been made anew, once for each epoch.
 * @returns whose key it is and which epoch was known before, unless this one was known already or the key is not published
 */
export async function noteEpoch(
  db: Queryable,
  { keyId, epoch }: { keyId: string; epoch: number },
): Promise<{ accountId: string | null; before: number } | undefined> {
  const { rows } = await db.query<{ account_id: string | null; before: number }>(
    `update account_keys k set epoch = $2, refreshed_at = now()
     from (select id, epoch from account_keys where id = $1 for no key update) old
     where k.id = old.id and old.epoch < $2 returning k.account_id, old.epoch as before`,
    [keyId, epoch],
  );
  return rows[0] && { accountId: rows[0].account_id, before: rows[0].before };
}
