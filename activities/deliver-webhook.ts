import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { Clock } from '../shared/db/clock.ts';
import { type EventRow, getEvent } from '../shared/db/events.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import {
  type DeliveryChange,
  type DeliveryRow,
  type DeliveryStatus,
  endUnattempted,
  getDelivery,
} from '../shared/db/webhook-deliveries.ts';
import { getWebhook, type WebhookRow } from '../shared/db/webhooks.ts';
import { type DeliverySchedule, deliverySchedule, readRetryAfter } from '../shared/domain/delivery-schedule.ts';
import type { HttpGuard } from '../shared/http-guard.ts';
import type { Logger } from '../shared/log.ts';
import { renderEvent } from '../shared/render-event.ts';
import type { SecretOpener } from '../shared/webhook-secrets.ts';
import { askReceiver } from './ask-receiver.ts';
import { notFound } from './failures.ts';
import { recordAttempt } from './record-attempt.ts';
import { signDelivery } from './sign-delivery.ts';

/** What is our own fault, as a key that is missing, is no attempt; it is looked at again after this long. */
const faultPauseMs = 300_000;

export interface DeliverWebhookDependencies {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Resolves and checks the receiver's address at each request. */
  readonly guard: HttpGuard;
  readonly opener: SecretOpener;
  readonly livemode: boolean;
  readonly logger: Logger;
  /** Default: that of the decisions, section 8. */
  readonly schedule?: DeliverySchedule;
}

/** How a delivery has ended. */
export interface DeliveryResult {
  readonly status: Exclude<DeliveryStatus, 'pending'>;
}

/**
 * Makes the attempt of a delivery that is due, if one is, and notes how it ended. The row decides which attempt it is and
 * when the next one is due: an earlier call makes no request, nor does one for a delivery that has ended. A call that dies
 * between the request and its record repeats that attempt: receivers may be told twice, and by the same id.
 * @throws ApplicationFailure to be called again: `NotYet` and `AttemptFailed` with the time until then
 */
export function createDeliverWebhook(deps: DeliverWebhookDependencies) {
  const { pool, clock, logger, schedule = deliverySchedule } = deps;
  return async function deliverWebhook(deliveryId: string): Promise<DeliveryResult> {
    const seen = await getDelivery(pool, { id: deliveryId });
    if (!seen) throw notFound(`Delivery ${deliveryId}`);
    if (seen.status !== 'pending') return { status: seen.status };
    const begunAt = await clock(pool);
    const leftMs = seen.next_attempt_at!.getTime() - begunAt.getTime();
    if (leftMs > 0) throw again('NotYet', `Attempt ${seen.attempt + 1} is not due yet.`, leftMs);

    const [webhook, event] = [
      await getWebhook(pool, { id: seen.webhook_id }),
      await getEvent(pool, { id: seen.event_id }),
    ];
    const why = reasonNotToSend({ seen, webhook, event });
    if (why !== undefined || !webhook || !event) {
      await endUnattempted(pool, { seen, message: why!, now: begunAt });
      return { status: 'failed' };
    }
    const change = await attempt({ seen, webhook, event, begunAt });
    // Noted by another call, which is the one that goes on; this one finds out how.
    if (!change) throw again('NotYet', `Attempt ${seen.attempt + 1} was made twice.`, 0);
    if (change.status !== 'pending') return { status: change.status };
    const waitMs = change.nextAttemptAt!.getTime() - change.now.getTime();
    throw again('AttemptFailed', `Attempt ${seen.attempt + 1} failed; see the delivery.`, waitMs);
  };

  async function attempt({
    seen,
    webhook,
    event,
    begunAt,
  }: {
    seen: DeliveryRow;
    webhook: WebhookRow;
    event: EventRow;
    begunAt: Date;
  }): Promise<DeliveryChange | undefined> {
    const facts = { delivery_id: seen.id, webhook_id: webhook.id, attempt: seen.attempt + 1 };
    const { outcome, retryAfter } = await request({ webhook, event, now: begunAt }).catch((error: unknown) => {
      logger.error({ ...facts, error: String(error) }, 'a delivery cannot be attempted');
      throw again('Fault', 'The attempt could not be made; see the log of the worker.', faultPauseMs);
    });
    const now = await clock(pool);
    const made = { seen, outcome, begunAt, now, retryAfter: readRetryAfter(retryAfter, { now }) };
    const change = await inTransaction(pool, (db) => recordAttempt(db, made, { schedule, random: Math.random() }));
    logger.debug({ ...facts, ...change, status_code: outcome.statusCode, reason: outcome.failureReason }, 'attempted');
    return change;
  }

  async function request({ webhook, event, now }: { webhook: WebhookRow; event: EventRow; now: Date }) {
    const body = JSON.stringify(renderEvent(event, { livemode: deps.livemode }));
    const headers = await signDelivery(deps.opener, { webhook, eventId: event.id, body, now });
    return askReceiver(deps.guard, { url: webhook.url, method: 'POST', headers, body });
  }
}

/** In a sentence, for whoever owns the webhook; undefined: it is sent. */
function reasonNotToSend({
  seen,
  webhook,
  event,
}: {
  seen: DeliveryRow;
  webhook: WebhookRow | undefined;
  event: EventRow | undefined;
}): string | undefined {
  if (!webhook || webhook.deleted_at !== null) return 'The webhook was deleted before the event could be delivered.';
  if (webhook.status !== 'active' && seen.kind !== 'test')
    return `The webhook was ${webhook.status} when the event was to be delivered.`;
  if (!event) return 'The event is not kept any more.';
  return undefined;
}

/** Each delay is the schedule's or ours, never Temporal's: the row holds the count. */
function again(type: 'NotYet' | 'AttemptFailed' | 'Fault', message: string, delayMs: number): ApplicationFailure {
  // Part of the plan, and nothing to be logged, except for what is a fault.
  const quiet = type === 'Fault' ? {} : { category: ApplicationFailureCategory.BENIGN };
  return ApplicationFailure.create({ type, message, ...quiet, nextRetryDelay: Math.max(delayMs, 1) });
}
