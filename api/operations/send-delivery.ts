import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import {
  countTestsUnderWay,
  type DeliveryWithAttempts,
  findDelivery,
  listDeliveries,
} from '../../shared/db/delivery-history.ts';
import { findEvent, storeEvent } from '../../shared/db/events.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { type DeliveryRow, insertDeliveries } from '../../shared/db/webhook-deliveries.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import { renderDelivery } from '../../shared/render-delivery.ts';
import { renderWebhook } from '../../shared/render-webhook.ts';
import type { Once } from '../idempotency.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import { lockPresent } from './change-webhook.ts';

/** Tests of one webhook at a time: whoever hangs must not hold what delivers to others. */
const maxTests = 5;
/** How long one takes at most. */
const testSeconds = 15;

export interface DeliveryDependencies {
  readonly pool: Pool;
  readonly temporal: Pick<TemporalGateway, 'deliver'>;
}

/**
 * Sends a test event to a webhook, whatever its status and its kinds of events, by the worker that sends all others; and
 * waits for how that ends. Where that takes too long, the answer is the delivery as it stands.
 */
export async function testWebhook(
  deps: DeliveryDependencies,
  {
    webhookId,
    accountId,
    acting,
    once,
    log,
  }: {
    webhookId: string;
    accountId: string;
    acting: Acting;
    once: Once;
    log: Logger;
  },
) {
  const eventId = newId('evt');
  const delivery = await inTransaction(deps.pool, async (db) => {
    await once.claim(db, { resourceId: eventId });
    // Locked, so that calls at once are counted one after the other.
    const webhook = await lockPresent(db, { id: webhookId });
    if ((await countTestsUnderWay(db, { webhookId })) >= maxTests)
      throw new PurserError(
        'rate_limit_exceeded',
        `${maxTests} tests of ${webhookId} are under way: wait until one of them has ended.`,
        { retryAfterSeconds: testSeconds },
      );
    const event = {
      accountId,
      type: 'webhook.test',
      resourceType: 'webhook',
      resourceId: webhookId,
      agentId: null,
      data: renderWebhook(webhook),
    } as const;
    await storeEvent(db, event, eventId);
    const made = { accountId, webhookIds: [webhookId], eventId, eventType: event.type, kind: 'test' } as const;
    const [row] = await insertDeliveries(db, made);
    await insertAudit(db, {
      accountId,
      action: 'webhook.tested',
      acting,
      resourceType: 'webhook',
      resourceId: webhookId,
      result: 'success',
      metadata: { delivery_id: row!.id, event_id: eventId },
    });
    return row!;
  });
  return answerTest(deps, { delivery, log });
}

/** The same answer for a repeat whose first request died. @param eventId of the test */
export async function answerTestOf(
  deps: DeliveryDependencies,
  { accountId, eventId, log }: { accountId: string; eventId: string; log: Logger },
) {
  const event = (await findEvent(deps.pool, { id: eventId, accountId }))!;
  const deliveries = await listDeliveries(deps.pool, { webhookId: event.resource_id, eventId, limit: 100, offset: 0 });
  return answerTest(deps, { delivery: deliveries.find(({ kind }) => kind === 'test')!, log });
}

async function answerTest(
  { pool, temporal }: DeliveryDependencies,
  { delivery, log }: { delivery: DeliveryRow; log: Logger },
) {
  if (delivery.status === 'pending') await temporal.deliver(delivery, { log });
  return renderDelivery((await findDelivery(pool, { id: delivery.id, webhookId: delivery.webhook_id }))!);
}

/**
 * Sends an event to a webhook once more, as a delivery of its own. It is begun as any other: within the webhook's share of
 * what delivers, a moment after this.
 * @throws PurserError 400 where the webhook is not active, or the event is kept no more
 */
export async function redeliver(
  pool: Pool,
  { earlier, acting, once }: { earlier: DeliveryWithAttempts; acting: Acting; once: Once },
) {
  const { account_id: accountId, webhook_id: webhookId, event_id: eventId, event_type: eventType } = earlier;
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    const webhook = await lockPresent(db, { id: webhookId });
    if (webhook.status !== 'active')
      throw new PurserError(
        'invalid_request',
        `Webhook ${webhookId} is ${webhook.status}: it is sent nothing until it is active again (PUT with status "active").`,
      );
    if (!(await findEvent(db, { id: eventId, accountId })))
      throw new PurserError('invalid_request', `Event ${eventId} is too old: it is kept no more, and cannot be sent.`);
    const made = { accountId, webhookIds: [webhookId], eventId, eventType, kind: 'redelivery' } as const;
    const [row] = await insertDeliveries(db, made);
    await insertAudit(db, {
      accountId,
      action: 'webhook_delivery.redelivered',
      acting,
      resourceType: 'webhook_delivery',
      resourceId: row!.id,
      result: 'success',
      metadata: { webhook_id: webhookId, event_id: eventId, redelivery_of: earlier.id },
    });
    const answer = renderDelivery({ ...row!, attempts: [] });
    await once.answer(db, answer);
    return answer;
  });
}
