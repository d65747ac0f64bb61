import { z } from 'zod';
import { type EventType, eventTypes } from '../../shared/domain/events.ts';
import { maxSecretLength, readWebhookSecret } from '../../shared/domain/webhook-secret.ts';
import { readWebhookUrl } from '../read-webhook-url.ts';
import { instant, listOf, optional, pageParameters } from './common.ts';
import { eventType } from './events.ts';

const webhookId = z.string().meta({ description: 'Identifier, `whk_…`.', example: 'whk_01kahvd1r0fv2t5c7m4y2q8s3z' });
const exampleUrl = 'https://example.com/purser/events';
const exampleSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';

export const webhook = z
  .object({
    id: webhookId,
    url: z.string().meta({ description: 'Where events are sent by HTTP POST.', example: exampleUrl }),
    events: z.array(eventType).meta({ description: 'Kinds of events that it is sent.' }),
    status: z.enum(['active', 'inactive', 'disabled']).meta({
      description:
        '`inactive`: you have stopped it. `disabled`: the service has stopped it, and `disabled_reason` says why. Only an active one is sent events.',
      example: 'active',
    }),
    disabled_reason: z.string().nullable().meta({ description: 'Null unless it is disabled.', example: null }),
    secret_format: z.enum(['base64', 'utf8']).meta({
      description:
        'How the characters after `whsec_` of its secret become the key that signs: decoded, as the libraries of Standard Webhooks do, or as they are.',
      example: 'base64',
    }),
    created_at: instant,
    updated_at: instant,
  })
  .meta({ id: 'Webhook', description: 'A receiver of events. Its secret is never shown.' });

export const webhookList = listOf(webhook, 'Webhook');

export const deletedWebhook = z
  .object({ id: webhookId, deleted: z.literal(true) })
  .meta({ id: 'DeletedWebhook', description: 'What was deleted.' });

export const listWebhooksQuery = z.strictObject(pageParameters);

/** What signs; parsed into the text to seal and how it is read. */
const secret = z
  .string()
  .transform((text, context) => {
    const read = readWebhookSecret(text);
    if ('format' in read) return { text, format: read.format };
    context.addIssue({ code: 'custom', message: read.fault });
    return z.NEVER;
  })
  .meta({
    description:
      'Signs what is sent (Standard Webhooks). Begins with `whsec_`. If the rest is base64 of 24 to 64 bytes, as `openssl rand -base64 32` makes, those bytes are the key; any other text of at least 16 bytes is the key as it is. Kept sealed: nobody can read it here, so keep it yourself.',
    example: exampleSecret,
    pattern: '^whsec_',
    maxLength: maxSecretLength,
    writeOnly: true,
  });

/** Faults named at most in one sentence, and characters of each. */
const maxNamed = 5;
const maxNameLength = 64;

const events = z
  .array(z.string())
  .transform((given, context): readonly EventType[] => {
    const kinds = [...new Set(given)];
    const unknown = kinds.filter((kind) => !(eventTypes as readonly string[]).includes(kind));
    const refuse = (message: string) => {
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    };
    if (kinds.length === 0) return refuse('must name at least one kind of event. Leave it out for all of them.');
    if (unknown.length > 0) {
      const named = unknown.slice(0, maxNamed).map((kind) => JSON.stringify(kind.slice(0, maxNameLength)));
      const others = unknown.length > maxNamed ? ` and ${unknown.length - maxNamed} more` : '';
      return refuse(
        `names unknown kinds of events: ${named.join(', ')}${others}. Known are: ${eventTypes.join(', ')}.`,
      );
    }
    return kinds as EventType[];
  })
  .meta({
    description: 'Kinds of events to send. To name every kind is the same as to leave it out: all, also those to come.',
    example: ['payment.completed', 'payment.failed'],
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      Object.assign(jsonSchema, { minItems: 1, items: { enum: [...eventTypes], type: 'string' } });
    },
  });

/** Bodies of requests; which urls are taken depends on the installation. */
export function createWebhookBodies({ allowLoopback }: { allowLoopback: boolean }) {
  const url = z
    .string()
    .transform((text, context) => {
      const read = readWebhookUrl(text, { allowLoopback });
      if ('url' in read) return read.url;
      context.addIssue({ code: 'custom', message: read.fault });
      return z.NEVER;
    })
    .meta({
      description:
        'Where to send events: https, on the public internet; no user info and no fragment; at most 2048 characters. What its name leads to is checked at every attempt, and redirects are not followed.',
      example: exampleUrl,
      maxLength: 2048,
    });
  const status = z.enum(['active', 'inactive']).meta({
    description: '`active` also lifts `disabled`, and forgets failures so far.',
    example: 'inactive',
  });
  return {
    create: z
      .strictObject({ url, events: optional(events), secret })
      .meta({ example: { url: exampleUrl, events: ['payment.completed'], secret: exampleSecret } }),
    change: z
      .strictObject({ url: optional(url), events: optional(events), status: optional(status) })
      .refine((given) => Object.values(given).some((value) => value !== undefined), {
        error: 'must have at least one of url, events and status.',
      })
      .meta({ example: { status: 'inactive' }, minProperties: 1 }),
    rotate: z.strictObject({ secret }).meta({ example: { secret: exampleSecret } }),
  };
}
export type WebhookBodies = ReturnType<typeof createWebhookBodies>;
