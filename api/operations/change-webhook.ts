import type { z } from 'zod';
import { type Acting, type AuditAction, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import {
  deleteWebhook,
  lockWebhook,
  rotateWebhookSecret,
  updateWebhook,
  type WebhookRow,
} from '../../shared/db/webhooks.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderWebhook } from '../../shared/render-webhook.ts';
import type { Once } from '../idempotency.ts';
import type { WebhookBodies } from '../schemas/webhooks.ts';
import { type SealingDependencies, storedKinds } from './create-webhook.ts';

/** How long the secret before signs as well. */
const overlapSeconds = 24 * 60 * 60;

/** A webhook that somebody changes. */
interface Changing {
  readonly id: string;
  readonly acting: Acting;
}

/** Changes what is given and leaves the rest. @throws PurserError 404 where it was deleted meanwhile */
export function changeWebhook(
  pool: Pool,
  { id, acting, body }: Changing & { body: z.output<WebhookBodies['change']> },
) {
  return inTransaction(pool, async (db) => {
    const before = await lockPresent(db, { id });
    const after = await updateWebhook(db, {
      id,
      url: body.url ?? before.url,
      events: body.events ? storedKinds(body.events) : before.events,
      status: body.status ?? before.status,
      isFresh: body.status === 'active' || (body.url !== undefined && body.url !== before.url),
    });
    await noteChange(db, { action: 'webhook.updated', acting, before, after });
    return renderWebhook(after);
  });
}

/**
 * Gives a webhook another secret; for a day the one before signs as well. Two requests at once are two rotations, one
 * after the other. @throws PurserError 404 where it was deleted meanwhile
 */
export async function rotateSecret(
  { pool, sealSecret }: SealingDependencies,
  { id, acting, body, once }: Changing & { body: z.output<WebhookBodies['rotate']>; once: Once },
) {
  const sealed = await sealSecret({ secret: body.secret.text, webhookId: id });
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    const before = await lockPresent(db, { id });
    const after = await rotateWebhookSecret(db, { id, sealed, format: body.secret.format, overlapSeconds });
    await noteChange(db, {
      action: 'webhook.secret_rotated',
      acting,
      before,
      after,
      metadata: { previous_valid_until: after.previous_until!.toISOString() },
    });
    const answer = renderWebhook(after);
    await once.answer(db, answer);
    return answer;
  });
}

/** Deletes a webhook with its secrets. @throws PurserError 404 where it was deleted meanwhile */
export function removeWebhook(pool: Pool, { id, acting }: Changing): Promise<void> {
  return inTransaction(pool, async (db) => {
    const before = await lockPresent(db, { id });
    await deleteWebhook(db, { id });
    await noteChange(db, { action: 'webhook.deleted', acting, before, after: null });
  });
}

async function noteChange(
  db: Queryable,
  {
    action,
    acting,
    before,
    after,
    metadata = {},
  }: {
    action: AuditAction;
    acting: Acting;
    before: WebhookRow;
    after: WebhookRow | null;
    metadata?: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  await insertAudit(db, {
    accountId: before.account_id,
    action,
    acting,
    resourceType: 'webhook',
    resourceId: before.id,
    result: 'success',
    changes: { before: renderWebhook(before), after: after && renderWebhook(after) },
    metadata,
  });
}

/** The webhook, locked until the database transaction ends. @throws PurserError 404 where it was deleted meanwhile */
export async function lockPresent(db: Queryable, { id }: { id: string }): Promise<WebhookRow> {
  const row = await lockWebhook(db, { id });
  if (row && row.deleted_at === null) return row;
  throw new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
}
