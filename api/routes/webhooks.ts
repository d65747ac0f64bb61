import { countWebhooks, findWebhook, listWebhooks } from '../../shared/db/webhooks.ts';
import { isId } from '../../shared/ids.ts';
import { renderWebhook } from '../../shared/render-webhook.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { changeWebhook, removeWebhook, rotateSecret } from '../operations/change-webhook.ts';
import { createWebhook, type SealingDependencies } from '../operations/create-webhook.ts';
import { readPage } from '../read-page.ts';
import { createWebhookBodies, deletedWebhook, listWebhooksQuery, webhook, webhookList } from '../schemas/webhooks.ts';

const tag = 'Webhooks';

/** Endpoints of webhooks; those of what they are sent are in deliveries.ts. */
export function createWebhookEndpoints(deps: SealingDependencies & { allowLoopback: boolean }): Endpoint[] {
  const { pool } = deps;
  const bodies = createWebhookBodies(deps);
  const find = async ({ caller: { accountId }, id }: { caller: Caller; id: string }) =>
    isId('whk', id) ? findWebhook(pool, { id, accountId }) : undefined;
  return [
    defineEndpoint({
      method: 'post',
      path: '/webhooks',
      operationId: 'createWebhook',
      tag,
      summary: 'Register a webhook',
      description:
        'Events are sent to it by HTTP POST, signed by its secret as Standard Webhooks 1.0 says (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Any 2xx within 15 s is a success. Anything else is tried again, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h later, and not before what `Retry-After` says; 410 disables the webhook at once, and so does failing for five days. The same event may come more than once, and later ones before it: go by its id.',
      body: bodies.create,
      isBodySecret: true,
      answer: webhook,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId, account }, acting, body, once }) =>
        createWebhook(deps, { accountId, plan: account.plan, acting, body, once }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/webhooks',
      operationId: 'listWebhooks',
      tag,
      summary: 'List webhooks',
      description: 'Newest first.',
      query: listWebhooksQuery,
      answer: webhookList,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, query }) =>
        readPage({
          page: query,
          count: () => countWebhooks(pool, { accountId }),
          list: (window) => listWebhooks(pool, { accountId, ...window }),
          render: renderWebhook,
        }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/webhooks/{id}',
      operationId: 'getWebhook',
      tag,
      summary: 'Get a webhook',
      description: 'A webhook of this account, and whether it is sent events.',
      answer: webhook,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ found }) => renderWebhook(found),
    }),
    defineEndpoint({
      method: 'put',
      path: '/webhooks/{id}',
      operationId: 'changeWebhook',
      tag,
      summary: 'Change a webhook',
      description:
        'What is not given stays. Attempts from now on go to the new url, also those of earlier events. While it is not active no delivery is made, and those under way end as failed; read /events for what it has missed. The secret is changed by rotate-secret.',
      body: bodies.change,
      answer: webhook,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ found: { id }, acting, body }) => changeWebhook(pool, { id, acting, body }),
    }),
    defineEndpoint({
      method: 'delete',
      path: '/webhooks/{id}',
      operationId: 'deleteWebhook',
      tag,
      summary: 'Delete a webhook',
      description: 'Nothing more is sent to it, and its secrets are erased. A second time: 404.',
      answer: deletedWebhook,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ found: { id }, acting }) => {
        await removeWebhook(pool, { id, acting });
        return { id, deleted: true };
      },
    }),
    defineEndpoint({
      method: 'post',
      path: '/webhooks/{id}/rotate-secret',
      operationId: 'rotateWebhookSecret',
      tag,
      summary: "Change a webhook's secret",
      description:
        'The new secret signs at once. For 24 hours the one before signs as well: `webhook-signature` then holds both signatures, and a receiver that knows either accepts. At most two are valid at once, so that a second rotation ends the oldest.',
      body: bodies.rotate,
      isBodySecret: true,
      answer: webhook,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ found: { id }, acting, body, once }) => rotateSecret(deps, { id, acting, body, once }),
    }),
  ];
}
