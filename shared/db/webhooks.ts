import type { EventType } from '../domain/events.ts';
import type { SecretFormat } from '../domain/webhook-secret.ts';
import type { Queryable } from './pool.ts';

export type WebhookStatus = 'active' | 'inactive' | 'disabled';

/** A receiver of events. Its secrets are sealed: only a worker that delivers can open them. */
export interface WebhookRow {
  readonly id: string;
  readonly account_id: string;
  readonly url: string;
  /** Null: every kind. */
  readonly events: readonly EventType[] | null;
  readonly status: WebhookStatus;
  readonly disabled_reason: string | null;
  readonly failing_since: Date | null;
  /** JWE; null once the webhook is deleted. */
  readonly secret: string | null;
  readonly secret_key_id: string | null;
  readonly secret_format: SecretFormat | null;
  readonly previous_secret: string | null;
  readonly previous_key_id: string | null;
  readonly previous_until: Date | null;
  readonly deleted_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A secret as it is stored: the JWE, and the id of the key that opens it. */
export interface SealedSecret {
  readonly secret: string;
  readonly keyId: string;
}

export async function insertWebhook(
  db: Queryable,
  webhook: {
    id: string;
    accountId: string;
    url: string;
    events: readonly EventType[] | null;
    sealed: SealedSecret;
    format: SecretFormat;
  },
): Promise<WebhookRow> {
  const { rows } = await db.query<WebhookRow>(
    `insert into webhooks (id, account_id, url, events, secret, secret_key_id, secret_format)
     values ($1, $2, $3, $4, $5, $6, $7) returning *`,
    [
      webhook.id,
      webhook.accountId,
      webhook.url,
      webhook.events,
      webhook.sealed.secret,
      webhook.sealed.keyId,
      webhook.format,
    ],
  );
  return rows[0]!;
}

/** The webhook, whoever's it is, deleted ones included: for workers. */
export async function getWebhook(db: Queryable, { id }: { id: string }): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>('select * from webhooks where id = $1', [id]);
  return rows[0];
}

/** The webhook, locked until the database transaction ends, deleted ones included. */
export async function lockWebhook(db: Queryable, { id }: { id: string }): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>('select * from webhooks where id = $1 for no key update', [id]);
  return rows[0];
}

/** The webhook, if it is this account's and not deleted. */
export async function findWebhook(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>(
    'select * from webhooks where id = $1 and account_id = $2 and deleted_at is null',
    [id, accountId],
  );
  return rows[0];
}

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listWebhooks(
  db: Queryable,
  { accountId, limit, offset }: { accountId: string; limit: number; offset: number },
): Promise<WebhookRow[]> {
  const { rows } = await db.query<WebhookRow>(
    `select * from webhooks where account_id = $1 and deleted_at is null
     order by created_at desc, id desc limit $2 offset $3`,
    [accountId, limit, offset],
  );
  return rows;
}

export async function countWebhooks(db: Queryable, { accountId }: { accountId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from webhooks where account_id = $1 and deleted_at is null',
    [accountId],
  );
  return rows[0]!.count;
}

/**
 * Writes what a PUT makes of a webhook that is locked. Whatever was said of its receiver before is forgotten where it gets
 * another url, or is made active.
 */
export async function updateWebhook(
  db: Queryable,
  {
    id,
    url,
    events,
    status,
    isFresh,
  }: {
    id: string;
    url: string;
    events: readonly EventType[] | null;
    status: WebhookStatus;
    /** Whether failures so far no longer count. */
    isFresh: boolean;
  },
): Promise<WebhookRow> {
  const { rows } = await db.query<WebhookRow>(
    `update webhooks
     set url = $2, events = $3, status = $4,
         disabled_reason = case when $4 = 'disabled' then disabled_reason end,
         failing_since = case when $5 then null else failing_since end, updated_at = now()
     where id = $1 returning *`,
    [id, url, events, status, isFresh],
  );
  return rows[0]!;
}

/** Gives a webhook that is locked another secret; the one so far is valid besides until then, and no older one. */
export async function rotateWebhookSecret(
  db: Queryable,
  {
    id,
    sealed,
    format,
    overlapSeconds,
  }: { id: string; sealed: SealedSecret; format: SecretFormat; overlapSeconds: number },
): Promise<WebhookRow> {
  const { rows } = await db.query<WebhookRow>(
    `update webhooks
     set previous_secret = secret, previous_key_id = secret_key_id,
         previous_until = now() + make_interval(secs => $5),
         secret = $2, secret_key_id = $3, secret_format = $4, updated_at = now()
     where id = $1 returning *`,
    [id, sealed.secret, sealed.keyId, format, overlapSeconds],
  );
  return rows[0]!;
}

/** Hides a webhook and erases its secrets. @returns false where it was deleted before */
export async function deleteWebhook(db: Queryable, { id }: { id: string }): Promise<boolean> {
  const { rowCount } = await db.query(
    `update webhooks
     set deleted_at = now(), secret = null, secret_key_id = null, secret_format = null,
         previous_secret = null, previous_key_id = null, previous_until = null, updated_at = now()
     where id = $1 and deleted_at is null`,
    [id],
  );
  return rowCount === 1;
}
