import { z } from 'zod';
import { eventTypes } from '../../shared/domain/events.ts';
import { instant, listOf, pageParameters } from './common.ts';
import { idParameter, timeRange, withTimeRange } from './time-range.ts';

export const eventType = z.enum(eventTypes).meta({ id: 'EventType', example: 'payment.completed' });

export const event = z
  .object({
    id: z.string().meta({
      description: 'Identifier, `evt_…`; also in the header `webhook-id` of every delivery.',
      example: 'evt_01kahvd1r0fv2t5c7m4y2q8s3z',
    }),
    type: eventType,
    created_at: instant,
    api_version: z.string().meta({ description: 'Of the interface, when it happened.', example: '1.0.0' }),
    livemode: z.boolean().meta({ description: 'Whether this installation is for production.', example: false }),
    data: z.record(z.string(), z.unknown()).meta({
      description:
        'What it happened to, as it was then. payment.*: the Transaction. policy.violated: the denial. approval.*: the Approval. account.frozen, account.unfrozen, agent.frozen, agent.unfrozen: `account_id`, `agent_id`, and the freeze: its scope (`installation` as well), `reason`, `frozen_by` and `frozen_at`. agent.low_gas: `agent_id`, `chain`, `address`, `message` and what is lacking; with `top_up`, why a funding agent does not fill the wallet up. agent.*: otherwise the Agent. x402.*: the session or the payment. webhook.*: the Webhook.',
    }),
  })
  .meta({ id: 'Event', description: 'Something that happened. What is sent to webhooks is exactly this object.' });

export const eventList = listOf(event, 'Event');

export const listEventsQuery = withTimeRange(
  z.strictObject({
    ...pageParameters,
    type: eventType.optional().meta({ description: 'Only events of this kind.' }),
    resource_id: idParameter(
      'Only what happened to this transaction, approval, account, agent, x402 session, x402 payment or webhook.',
    ),
    ...timeRange,
  }),
);
