import type { EventType } from '../domain/events.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';
import type { AttemptOutcome } from './webhook-attempts.ts';

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

/** The delivery, whoever's it is: for workers. */
export async function getDelivery(db: Queryable, { id }: { id: string }): Promise<DeliveryRow | undefined> {
  const { rows } = await db.query<DeliveryRow>('select * from webhook_deliveries where id = $1', [id]);
  return rows[0];
}

/** What a delivery comes to. */
export interface DeliveryChange {
  readonly status: DeliveryStatus;
  /** Null exactly where it has ended. */
  readonly nextAttemptAt: Date | null;
  readonly now: Date;
}

const isAsSeen = `id = $1 and created_at = $2 and attempt = $3 and status = 'pending'`;

/**
 * Locks a delivery until the database transaction ends.
 * @param seen the row as it was before an attempt
 * @returns false where that attempt was noted meanwhile by somebody else, or the delivery has ended
 */
export async function lockDelivery(db: Queryable, { seen }: { seen: DeliveryRow }): Promise<boolean> {
  const { rowCount } = await db.query(`select id from webhook_deliveries where ${isAsSeen} for no key update`, [
    seen.id,
    seen.created_at,
    seen.attempt,
  ]);
  return rowCount === 1;
}

/** Notes how the next attempt of a delivery that is locked has ended. */
export async function noteAttempt(
  db: Queryable,
  { seen, outcome, change }: { seen: DeliveryRow; outcome: AttemptOutcome; change: DeliveryChange },
): Promise<void> {
  await db.query(
    `update webhook_deliveries
     set attempt = attempt + 1, status = $4, status_code = $5, response_time_ms = $6, failure_reason = $7,
         failure_message = $8, response_body = $9, next_attempt_at = $10, updated_at = $11
     where ${isAsSeen}`,
    [
      seen.id,
      seen.created_at,
      seen.attempt,
      change.status,
      outcome.statusCode,
      outcome.responseTimeMs,
      outcome.failureReason,
      outcome.failureMessage,
      outcome.responseBody,
      change.nextAttemptAt,
      change.now,
    ],
  );
}

/** Ends a delivery without another attempt; nothing where it was attempted meanwhile, or has ended. */
export async function endUnattempted(
  db: Queryable,
  { seen, message, now }: { seen: DeliveryRow; message: string; now: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update webhook_deliveries
     set status = 'failed', status_code = null, response_time_ms = null, failure_reason = null, failure_message = $4,
         response_body = null, next_attempt_at = null, updated_at = $5
     where ${isAsSeen}`,
    [seen.id, seen.created_at, seen.attempt, message, now],
  );
  return rowCount === 1;
}

/** A delivery whose workflow is to be started. */
export type DispatchedRow = Pick<DeliveryRow, 'id' | 'account_id' | 'webhook_id' | 'event_id' | 'event_type'>;

/** Whether there is a delivery whose workflow nobody has asked for yet. */
export async function hasUndispatched(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    'select id from webhook_deliveries where dispatched_at is null order by webhook_id limit 1',
  );
  return rowCount === 1;
}

/**
 * Takes deliveries whose workflows nobody has asked for yet: the oldest of each webhook, one webhook after the other, and
 * of each no more than still fit in with those whose first attempt has not ended. One caller at a time takes some.
 * @param perWebhook first attempts of one webhook that are under way at once
 * @param limit deliveries in all
 */
export async function claimDeliveries(
  db: Queryable,
  { perWebhook, limit }: { perWebhook: number; limit: number },
): Promise<DispatchedRow[]> {
  await db.query(`select pg_advisory_xact_lock(hashtext('dispatch deliveries'))`);
  const { rows } = await db.query<DispatchedRow>(
    `with recursive waiting as (
       (select webhook_id from webhook_deliveries where dispatched_at is null order by webhook_id limit 1)
       union all
       select (select d.webhook_id from webhook_deliveries d
               where d.dispatched_at is null and d.webhook_id > w.webhook_id order by d.webhook_id limit 1)
       from waiting w where w.webhook_id is not null
     ), room as materialized (
       select w.webhook_id, $1 - (select count(*) from webhook_deliveries b
                                  where b.webhook_id = w.webhook_id and b.status = 'pending' and b.attempt = 0
                                    and b.dispatched_at is not null) as free
       from waiting w where w.webhook_id is not null
     ), chosen as materialized (
       select d.id, d.created_at
       from room r cross join lateral (
         select id, created_at, row_number() over (order by created_at, id) as place
         from (select id, created_at from webhook_deliveries
               where webhook_id = r.webhook_id and dispatched_at is null
               order by created_at, id limit greatest(r.free, 0)) oldest) d
       order by d.place, d.created_at, d.id limit $2
     )
     update webhook_deliveries d set dispatched_at = clock_timestamp()
     from chosen c where d.id = c.id and d.created_at = c.created_at and d.dispatched_at is null
     returning d.id, d.account_id, d.webhook_id, d.event_id, d.event_type`,
    [perWebhook, limit],
  );
  return rows;
}

/** Gives back what was taken and not begun. */
export async function giveBackDeliveries(db: Queryable, { ids }: { ids: readonly string[] }): Promise<void> {
  await db.query(
    `update webhook_deliveries set dispatched_at = null where id = any ($1) and status = 'pending' and attempt = 0`,
    [ids],
  );
}
