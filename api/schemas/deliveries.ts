import { z } from 'zod';
import { instant, listOf, pageParameters } from './common.ts';
import { eventType } from './events.ts';
import { idParameter, timeRange, withTimeRange } from './time-range.ts';

const outcome = {
  status_code: z.int().nullable().meta({ description: 'Of the answer; null where none came.', example: 500 }),
  response_time_ms: z.int().nullable().meta({ description: 'Until the answer was read.', example: 41 }),
  failure_reason: z
    .enum([
      'timeout',
      'connection_refused',
      'connection_reset',
      'dns_error',
      'tls_error',
      'invalid_response',
      'response_too_large',
      'non_2xx',
      'blocked_address',
    ])
    .nullable()
    .meta({ description: 'Null where it did not fail.', example: 'non_2xx' }),
  failure_message: z
    .string()
    .nullable()
    .meta({ description: 'The same in a sentence, or why nothing was sent.', example: 'The receiver answered 500.' }),
  response_body: z
    .string()
    .nullable()
    .meta({ description: 'How the body of the answer begins, at most 1 KiB.', example: 'Internal Server Error' }),
};

const attempt = z
  .object({ number: z.int().min(1).meta({ example: 1 }), ...outcome, created_at: instant })
  .meta({ id: 'WebhookAttempt', description: 'One request to the receiver.' });

const status = z.enum(['pending', 'succeeded', 'failed']);

export const delivery = z
  .object({
    id: z.string().meta({ description: 'Identifier, `dlv_…`.', example: 'dlv_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    webhook_id: z.string().meta({ example: 'whk_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    event_id: z.string().meta({
      description: 'Sent as `webhook-id`: the same for every delivery of the event.',
      example: 'evt_01kahvd1r0fv2t5c7m4y2q8s3z',
    }),
    event_type: eventType,
    kind: z.enum(['event', 'redelivery', 'test']).meta({
      description:
        'Why it exists: something happened, somebody wants it once more, or somebody tries the receiver out.',
      example: 'event',
    }),
    attempt: z.int().min(0).meta({ description: 'Attempts so far.', example: 1 }),
    status: status.meta({ description: '`succeeded`: the receiver answered 2xx.', example: 'pending' }),
    ...outcome,
    next_attempt_at: instant.nullable().meta({ description: 'Null once it has ended.' }),
    created_at: instant,
    attempts: z.array(attempt).meta({ description: 'The oldest first.' }),
  })
  .meta({
    id: 'WebhookDelivery',
    description: 'An event on its way to a webhook. What stands beside `attempts` is of the last one.',
  });

export const deliveryList = listOf(delivery, 'WebhookDelivery');

export const listDeliveriesQuery = withTimeRange(
  z.strictObject({
    ...pageParameters,
    status: status.optional().meta({ description: 'Only deliveries with this status.' }),
    event_type: eventType.optional().meta({ description: 'Only deliveries of events of this kind.' }),
    event_id: idParameter('Only deliveries of this event.'),
    ...timeRange,
  }),
);

/** Of POSTs that need no members. */
export const emptyBody = z.strictObject({});
