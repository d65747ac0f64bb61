import type { EventType } from '../domain/events.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export type DeliveryStatus = 'pending' | 'succeeded' | 'failed';
/** Why it exists: an event, somebody who wants it once more, or somebody who tries the receiver out. */
export type DeliveryKind = 'event' | 'redelivery' | 'test';

/** One event on its way to one webhook. What is told of an attempt is told of the last one. */
export interface DeliveryRow {
  readonly id: string;
  readonly account_id: string;
  readonly webhook_id: string;
  readonly event_id: string;
  readonly event_type: EventType;
  readonly kind: DeliveryKind;
  readonly status: DeliveryStatus;
  /** Attempts so far. */
  readonly attempt: number;
  readonly status_code: number | null;
  readonly response_time_ms: number | null;
  readonly failure_reason: string | null;
  readonly failure_message: string | null;
  readonly response_body: string | null;
  /** Null once it has ended. */
  readonly next_attempt_at: Date | null;
  readonly dispatched_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** Stores a delivery for each of these webhooks; the rows are the outbox from which their workflows are started. */
export async function insertDeliveries(
  db: Queryable,
  {
    accountId,
    webhookIds,
    eventId,
    eventType,
    kind,
  }: {
    accountId: string;
    webhookIds: readonly string[];
    eventId: string;
    eventType: EventType;
    kind: DeliveryKind;
  },
): Promise<DeliveryRow[]> {
  if (webhookIds.length === 0) return [];
  const { rows } = await db.query<DeliveryRow>(
    `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type, kind)
     select given.id, $3, given.webhook_id, $4, $5, $6
     from unnest($1::text[], $2::text[]) as given (id, webhook_id)
     returning *`,
    [webhookIds.map(() => newId('dlv')), webhookIds, accountId, eventId, eventType, kind],
  );
  return rows;
}
