import { countDeliveries, findDelivery, listDeliveries } from '../../shared/db/delivery-history.ts';
import { findWebhook } from '../../shared/db/webhooks.ts';
import { isId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import { renderDelivery } from '../../shared/render-delivery.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { answerTestOf, type DeliveryDependencies, redeliver, testWebhook } from '../operations/send-delivery.ts';
import { readPage } from '../read-page.ts';
import { delivery, deliveryList, emptyBody, listDeliveriesQuery } from '../schemas/deliveries.ts';

const tag = 'Webhooks';

/** Endpoints of what webhooks are sent. */
export function createDeliveryEndpoints(deps: DeliveryDependencies & { log: Logger }): Endpoint[] {
  const { pool } = deps;
  const find = async ({ caller: { accountId }, id }: { caller: Caller; id: string }) =>
    isId('whk', id) ? findWebhook(pool, { id, accountId }) : undefined;
  const findInner = async ({ caller, id: webhookId, innerId: id }: { caller: Caller; id: string; innerId: string }) => {
    const webhook = isId('dlv', id) ? await find({ caller, id: webhookId }) : undefined;
    return webhook && findDelivery(pool, { id, webhookId });
  };
  return [
    defineEndpoint({
      method: 'post',
      path: '/webhooks/{id}/test',
      operationId: 'testWebhook',
      tag,
      summary: 'Send a test event',
      description:
        'Sends an event of the kind `webhook.test`, whose data is the webhook, and waits for the answer: one attempt, signed and checked as any other. It is sent whatever the status of the webhook and its kinds of events are, and changes neither. Where the outcome is not known after 18 s, the delivery is `pending`: read it again. Five tests of a webhook may be under way at once: 429.',
      body: emptyBody,
      bodyOptional: true,
      answer: delivery,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ caller: { accountId }, found: { id: webhookId }, acting, once, log }) =>
        testWebhook(deps, { webhookId, accountId, acting, once, log }),
      rebuild: ({ caller: { accountId }, resourceId: eventId }) =>
        answerTestOf(deps, { accountId, eventId, log: deps.log }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/webhooks/{id}/deliveries',
      operationId: 'listWebhookDeliveries',
      tag,
      summary: 'List what a webhook was sent',
      description: 'Newest first, each with its attempts.',
      query: listDeliveriesQuery,
      answer: deliveryList,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ found: { id: webhookId }, query }) => {
        const { status, event_type: eventType, event_id: eventId, from, to } = query;
        const filter = { webhookId, status, eventType, eventId, from, to };
        return readPage({
          page: query,
          count: () => countDeliveries(pool, filter),
          list: (window) => listDeliveries(pool, { ...filter, ...window }),
          render: renderDelivery,
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/webhooks/{id}/deliveries/{delivery_id}',
      operationId: 'getWebhookDelivery',
      tag,
      summary: 'Get a delivery',
      description: 'How it stands, and each of its attempts.',
      answer: delivery,
      errors: ['invalid_request', 'resource_not_found'],
      find: findInner,
      handle: async ({ found }) => renderDelivery(found),
    }),
    defineEndpoint({
      method: 'post',
      path: '/webhooks/{id}/deliveries/{delivery_id}/redeliver',
      operationId: 'redeliverWebhookDelivery',
      tag,
      summary: 'Send an event once more',
      description:
        'Makes a new delivery of the same event, with the same `webhook-id` and the same body, and answers it as it begins. It is attempted as any other. The webhook must be active.',
      body: emptyBody,
      bodyOptional: true,
      answer: delivery,
      errors: ['invalid_request', 'resource_not_found'],
      find: findInner,
      handle: ({ found: earlier, acting, once }) => redeliver(pool, { earlier, acting, once }),
    }),
  ];
}
