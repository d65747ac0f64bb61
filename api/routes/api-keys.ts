import type { Environment } from '../../shared/api-key.ts';
import { countApiKeys, findAccountApiKey, listApiKeys } from '../../shared/db/api-keys.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { makeApiKey, removeApiKey } from '../operations/change-api-keys.ts';
import { readPage } from '../read-page.ts';
import { showListedApiKey } from '../render/api-key.ts';
import { apiKeyList, createApiKeyBody, createdApiKey, deletedApiKey, listApiKeysQuery } from '../schemas/api-keys.ts';

const tag = 'API keys';

/** Endpoints of API keys; for people only. */
export function createApiKeyEndpoints(deps: { pool: Pool; environment: Environment }): Endpoint[] {
  const { pool } = deps;
  return [
    defineEndpoint({
      method: 'post',
      path: '/api-keys',
      operationId: 'createApiKey',
      tag,
      summary: 'Make an API key',
      description:
        'The answer holds the key, this once: only a hash of it is kept. An account has at most 1,000 keys: 403.',
      body: createApiKeyBody,
      answer: createdApiKey,
      isAnswerSecret: true,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, acting, body, once }) => makeApiKey(deps, { accountId, acting, body, once }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/api-keys',
      operationId: 'listApiKeys',
      tag,
      summary: 'List API keys',
      description:
        'Newest first, and never with the keys themselves. Replace each at least every 90 days: make a new one, deploy it, see that it works, delete the old one.',
      query: listApiKeysQuery,
      answer: apiKeyList,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, query }) =>
        readPage({
          page: query,
          count: () => countApiKeys(pool, { accountId }),
          list: (window) => listApiKeys(pool, { accountId, ...window }),
          render: showListedApiKey,
        }),
    }),
    defineEndpoint({
      method: 'delete',
      path: '/api-keys/{id}',
      operationId: 'deleteApiKey',
      tag,
      summary: 'Delete an API key',
      description: 'It is refused from now on, by every process of the service. A second time: 404.',
      answer: deletedApiKey,
      errors: ['invalid_request', 'resource_not_found'],
      find: async ({ caller: { accountId }, id }) =>
        isId('key', id) ? findAccountApiKey(pool, { id, accountId }) : undefined,
      handle: async ({ found: { id }, acting }) => {
        if (!(await removeApiKey(pool, { id, acting })))
          throw new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
        return { id, deleted: true };
      },
    }),
  ];
}
