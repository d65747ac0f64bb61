import type { Queryable } from './pool.ts';
import type { WebhookRow } from './webhooks.ts';

// What attempts change of a webhook. Most change nothing, so that they do not wait for each other's lock.

/** Notes that an attempt has succeeded. */
export async function noteSuccess(db: Queryable, { webhookId }: { webhookId: string }): Promise<void> {
  await db.query('update webhooks set failing_since = null where id = $1 and failing_since is not null', [webhookId]);
}

/**
 * Notes that an attempt has failed.
 * @returns since when none has succeeded; undefined for a webhook that is not active (any more)
 */
export async function noteFailure(
  db: Queryable,
  { webhookId, now }: { webhookId: string; now: Date },
): Promise<Date | undefined> {
  const isActive = `id = $1 and status = 'active' and deleted_at is null`;
  await db.query(`update webhooks set failing_since = $2 where ${isActive} and failing_since is null`, [
    webhookId,
    now,
  ]);
  const { rows } = await db.query<{ failing_since: Date | null }>(
    `select failing_since from webhooks where ${isActive}`,
    [webhookId],
  );
  // Another attempt may have succeeded between the two.
  return rows[0] && (rows[0].failing_since ?? now);
}

/** Disables an active webhook. @returns the row as it is now; undefined where somebody else was first */
export async function disableWebhook(
  db: Queryable,
  { webhookId, reason, now }: { webhookId: string; reason: string; now: Date },
): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>(
    `update webhooks set status = 'disabled', disabled_reason = $2, updated_at = $3
     where id = $1 and status = 'active' and deleted_at is null
     returning *`,
    [webhookId, reason, now],
  );
  return rows[0];
}
