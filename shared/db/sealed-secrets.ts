import type { Queryable } from './pool.ts';
import type { SealedSecret, WebhookRow } from './webhooks.ts';

/** Webhooks with a secret that another key than this one opens, a batch at a time in the order of their ids. */
export async function listSealedOtherwise(
  db: Queryable,
  { keyId, after, limit }: { keyId: string; after: string; limit: number },
): Promise<WebhookRow[]> {
  const { rows } = await db.query<WebhookRow>(
    `select * from webhooks
     where deleted_at is null and id > $2 and (secret_key_id <> $1 or previous_key_id <> $1)
     order by id limit $3`,
    [keyId, after, limit],
  );
  return rows;
}

/** Puts a secret that was sealed anew in the place of what it was; nothing where it is another one by now. */
export async function replaceSealed(
  db: Queryable,
  { id, which, seen, sealed }: { id: string; which: 'secret' | 'previous'; seen: string; sealed: SealedSecret },
): Promise<boolean> {
  const statement =
    which === 'secret'
      ? 'update webhooks set secret = $3, secret_key_id = $4 where id = $1 and secret = $2'
      : 'update webhooks set previous_secret = $3, previous_key_id = $4 where id = $1 and previous_secret = $2';
  const { rowCount } = await db.query(statement, [id, seen, sealed.secret, sealed.keyId]);
  return rowCount === 1;
}
