import type { WebhookRow } from './db/webhooks.ts';
import { eventTypes } from './domain/events.ts';

/** A webhook as on the wire, in answers and in events; never with its secret. */
export function renderWebhook(row: WebhookRow) {
  return {
    id: row.id,
    url: row.url,
    events: row.events ?? eventTypes,
    status: row.status,
    disabled_reason: row.disabled_reason,
    secret_format: row.secret_format,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
