import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { insertEvent } from '../shared/db/events.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { type AttemptOutcome, insertWebhookAttempt } from '../shared/db/webhook-attempts.ts';
import { type DeliveryChange, type DeliveryRow, lockDelivery, noteAttempt } from '../shared/db/webhook-deliveries.ts';
import { disableWebhook, noteFailure, noteSuccess } from '../shared/db/webhook-health.ts';
import type { WebhookRow } from '../shared/db/webhooks.ts';
import { type DeliverySchedule, nextAttemptAt, reasonToDisable } from '../shared/domain/delivery-schedule.ts';
import { renderWebhook } from '../shared/render-webhook.ts';

/** An attempt that was made. */
export interface MadeAttempt {
  /** The delivery as it was before. */
  readonly seen: DeliveryRow;
  readonly outcome: AttemptOutcome;
  readonly begunAt: Date;
  /** When its outcome was known. */
  readonly now: Date;
  readonly retryAfter: Date | undefined;
}

/**
 * Notes an attempt and all that follows from it, in the caller's database transaction: when the next one is due, and
 * whether the webhook is disabled.
 * @param random from 0 up to 1, for the jitter
 * @returns what the delivery has come to; undefined where another attempt was noted in its place
 */
export async function recordAttempt(
  db: Queryable,
  attempt: MadeAttempt,
  { schedule, random }: { schedule: DeliverySchedule; random: number },
): Promise<DeliveryChange | undefined> {
  const { seen, outcome, begunAt, now, retryAfter } = attempt;
  if (!(await lockDelivery(db, { seen }))) return undefined;
  const number = seen.attempt + 1;
  const isTaken = outcome.failureReason === null;
  // Whoever tries a receiver out does not want it to be disabled by that, nor to be told of the test again.
  const isTest = seen.kind === 'test';
  const isRefused = !isTest && (await noteHealth(db, attempt, { schedule }));
  const next =
    isTaken || isTest || isRefused ? undefined : nextAttemptAt(schedule, { attempt: number, now, random, retryAfter });
  const change: DeliveryChange = next
    ? { status: 'pending', nextAttemptAt: next, now }
    : { status: isTaken ? 'succeeded' : 'failed', nextAttemptAt: null, now };
  await noteAttempt(db, { seen, outcome, change });
  await insertWebhookAttempt(db, { deliveryId: seen.id, number, begunAt, outcome });
  return change;
}

/** What the attempt says of the webhook. @returns whether nothing more is to be sent to it */
async function noteHealth(
  db: Queryable,
  { seen, outcome, now }: MadeAttempt,
  { schedule }: { schedule: DeliverySchedule },
): Promise<boolean> {
  const { webhook_id: webhookId } = seen;
  if (outcome.failureReason === null) {
    await noteSuccess(db, { webhookId });
    return false;
  }
  const failingSince = await noteFailure(db, { webhookId, now });
  const reason = reasonToDisable(schedule, { statusCode: outcome.statusCode, failingSince: failingSince ?? now, now });
  if (reason === undefined) return false;
  const disabled = await disableWebhook(db, { webhookId, reason, now });
  if (disabled) await tell(db, disabled);
  return true;
}

/** To the account's other webhooks, for this one is told nothing any more. */
async function tell(db: Queryable, webhook: WebhookRow): Promise<void> {
  const { id, account_id: accountId, disabled_reason: reason } = webhook;
  const resource = { resourceType: 'webhook', resourceId: id, agentId: null } as const;
  await insertEvent(db, { accountId, type: 'webhook.disabled', ...resource, data: renderWebhook(webhook) });
  await insertAudit(db, {
    ...{ accountId, action: 'webhook.disabled', acting: bySystem, ...resource, result: 'success' },
    changes: { before: { status: 'active' }, after: { status: 'disabled', disabled_reason: reason } },
  });
}
