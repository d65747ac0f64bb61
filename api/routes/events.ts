import { countEvents, findEvent, listEvents } from '../../shared/db/events.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { isId } from '../../shared/ids.ts';
import { renderEvent } from '../../shared/render-event.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { readPage } from '../read-page.ts';
import { event, eventList, listEventsQuery } from '../schemas/events.ts';

const tag = 'Events';

/** Endpoints of events. @param livemode whether the installation is for production */
export function createEventEndpoints({ pool, livemode }: { pool: Pool; livemode: boolean }): Endpoint[] {
  return [
    defineEndpoint({
      method: 'get',
      path: '/events',
      operationId: 'listEvents',
      tag,
      summary: 'List events',
      description:
        'Newest first. Everything that webhooks are sent, whether they were reached or not: a receiver that was down reads here what it has missed, `from` the last event that it has seen.',
      query: listEventsQuery,
      answer: eventList,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, query }) => {
        const { type, resource_id: resourceId, from, to } = query;
        const filter = { accountId, type, resourceId, from, to };
        return readPage({
          page: query,
          count: () => countEvents(pool, filter),
          list: (window) => listEvents(pool, { ...filter, ...window }),
          render: (row) => renderEvent(row, { livemode }),
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/events/{id}',
      operationId: 'getEvent',
      tag,
      summary: 'Get an event',
      description: 'The very object that webhooks are sent.',
      answer: event,
      errors: ['invalid_request', 'resource_not_found'],
      find: async ({ caller: { accountId }, id }) => (isId('evt', id) ? findEvent(pool, { id, accountId }) : undefined),
      handle: async ({ found }) => renderEvent(found, { livemode }),
    }),
  ];
}
