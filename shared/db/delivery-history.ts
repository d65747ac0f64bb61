import type { EventType } from '../domain/events.ts';
import { isCounted, readListCount } from './list-counts.ts';
import type { Queryable } from './pool.ts';
import type { DeliveryRow, DeliveryStatus } from './webhook-deliveries.ts';

/** One request to a receiver. */
export interface AttemptRow {
  readonly delivery_id: string;
  /** Of one delivery, from 1. */
  readonly number: number;
  readonly status_code: number | null;
  readonly response_time_ms: number | null;
  /** Null for one that succeeded. */
  readonly failure_reason: string | null;
  readonly failure_message: string | null;
  readonly response_body: string | null;
  /** When the request was begun. */
  readonly created_at: Date;
}

export interface DeliveryWithAttempts extends DeliveryRow {
  /** The oldest first. */
  readonly attempts: readonly AttemptRow[];
}

export interface DeliveryFilter {
  readonly webhookId: string;
  readonly status?: DeliveryStatus | undefined;
  readonly eventType?: EventType | undefined;
  readonly eventId?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly to?: Date | undefined;
}

/** The delivery, if it goes to this webhook. */
export async function findDelivery(
  db: Queryable,
  { id, webhookId }: { id: string; webhookId: string },
): Promise<DeliveryWithAttempts | undefined> {
  const { rows } = await db.query<DeliveryRow>('select * from webhook_deliveries where id = $1 and webhook_id = $2', [
    id,
    webhookId,
  ]);
  const [found] = await withAttempts(db, rows);
  return found;
}

const filtered = `webhook_id = $1 and ($2::text is null or status = $2) and ($3::text is null or event_type = $3)
  and ($4::text is null or event_id = $4)
  and ($5::timestamptz is null or created_at >= $5) and ($6::timestamptz is null or created_at < $6)`;

const valuesOf = ({ webhookId, status, eventType, eventId, from, to }: DeliveryFilter) => [
  webhookId,
  status ?? null,
  eventType ?? null,
  eventId ?? null,
  from ?? null,
  to ?? null,
];

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listDeliveries(
  db: Queryable,
  { limit, offset, ...filter }: DeliveryFilter & { limit: number; offset: number },
): Promise<DeliveryWithAttempts[]> {
  const { rows } = await db.query<DeliveryRow>(
    `select * from webhook_deliveries where ${filtered} order by created_at desc, id desc limit $7 offset $8`,
    [...valuesOf(filter), limit, offset],
  );
  return withAttempts(db, rows);
}

/** Kept counts serve most lists; what is narrower is counted row by row. */
export async function countDeliveries(db: Queryable, filter: DeliveryFilter): Promise<number> {
  const { webhookId: owner, status, eventType: type, eventId, from, to } = filter;
  const kept = { status, type };
  if (eventId === undefined && from === undefined && to === undefined && isCounted('webhook_deliveries', kept))
    return readListCount(db, { list: 'webhook_deliveries', owner, filter: kept });
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from webhook_deliveries where ${filtered}`,
    valuesOf(filter),
  );
  return rows[0]!.count;
}

/** Tests of a webhook under way that were begun in the last minute: older ones wait for a worker, and hold up nobody. */
export async function countTestsUnderWay(db: Queryable, { webhookId }: { webhookId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from webhook_deliveries
     where webhook_id = $1 and status = 'pending' and kind = 'test' and created_at > now() - interval '1 minute'`,
    [webhookId],
  );
  return rows[0]!.count;
}

/** Looks for attempts from a day before the oldest delivery on: their instants are by another clock. */
async function withAttempts(db: Queryable, deliveries: readonly DeliveryRow[]): Promise<DeliveryWithAttempts[]> {
  if (deliveries.length === 0) return [];
  const { rows } = await db.query<AttemptRow>(
    `select * from webhook_attempts
     where delivery_id = any ($1) and created_at >= $2::timestamptz - interval '1 day'
     order by delivery_id, number`,
    [deliveries.map(({ id }) => id), new Date(Math.min(...deliveries.map((row) => row.created_at.getTime())))],
  );
  const attempts = Map.groupBy(rows, (row) => row.delivery_id);
  return deliveries.map((row) => ({ ...row, attempts: attempts.get(row.id) ?? [] }));
}
