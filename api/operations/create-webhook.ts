import type { z } from 'zod';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { insertWebhook } from '../../shared/db/webhooks.ts';
import { type EventType, eventTypes } from '../../shared/domain/events.ts';
import type { Plan } from '../../shared/domain/plans.ts';
import { newId } from '../../shared/ids.ts';
import { renderWebhook } from '../../shared/render-webhook.ts';
import type { SealSecret } from '../../shared/webhook-secrets.ts';
import type { Once } from '../idempotency.ts';
import { requireRoom } from '../require-room.ts';
import type { WebhookBodies } from '../schemas/webhooks.ts';

export interface SealingDependencies {
  readonly pool: Pool;
  readonly sealSecret: SealSecret;
}

/** Kinds of events as they are stored: null for all of them, also those to come. */
export function storedKinds(kinds: readonly EventType[] | undefined): readonly EventType[] | null {
  return kinds === undefined || kinds.length === eventTypes.length ? null : kinds;
}

/** Registers a receiver. Its secret leaves here sealed to the workers that deliver, or not at all. @throws PurserError 403 where the plan allows no more */
export async function createWebhook(
  { pool, sealSecret }: SealingDependencies,
  {
    accountId,
    plan,
    body,
    acting,
    once,
  }: {
    accountId: string;
    plan: Plan;
    body: z.output<WebhookBodies['create']>;
    acting: Acting;
    once: Once;
  },
) {
  const id = newId('whk');
  const sealed = await sealSecret({ secret: body.secret.text, webhookId: id });
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    await requireRoom(db, { accountId, plan, kind: 'webhooks' });
    const row = await insertWebhook(db, {
      id,
      accountId,
      url: body.url,
      events: storedKinds(body.events),
      sealed,
      format: body.secret.format,
    });
    const answer = renderWebhook(row);
    await insertAudit(db, {
      accountId,
      action: 'webhook.created',
      acting,
      resourceType: 'webhook',
      resourceId: id,
      result: 'success',
      changes: { before: null, after: answer },
    });
    await once.answer(db, answer);
    return answer;
  });
}
