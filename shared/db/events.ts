import type { EventResource, EventType } from '../domain/events.ts';
import { newId } from '../ids.ts';
import { readListCount } from './list-counts.ts';
import type { Queryable } from './pool.ts';
import { insertDeliveries } from './webhook-deliveries.ts';

export interface EventRow {
  readonly id: string;
  readonly account_id: string;
  readonly type: EventType;
  readonly resource_type: EventResource;
  readonly resource_id: string;
  readonly agent_id: string | null;
  /** As it was written, to the byte. */
  readonly data: unknown;
  readonly api_version: string;
  readonly created_at: Date;
}

/** What happened. */
export interface NewEvent {
  readonly accountId: string;
  readonly type: EventType;
  readonly resourceType: EventResource;
  readonly resourceId: string;
  readonly agentId: string | null;
  /** What it happened to, as on the wire. */
  readonly data: unknown;
}

const insertion = `insert into events (id, account_id, type, resource_type, resource_id, agent_id, data)
  values ($1, $2, $3, $4, $5, $6, $7)`;

function valuesOf(event: NewEvent, id: string): unknown[] {
  const { accountId, type, resourceType, resourceId, agentId, data } = event;
  return [id, accountId, type, resourceType, resourceId, agentId, JSON.stringify(data)];
}

/**
 * Notes what happened, with a delivery for each webhook that wants to know, in the database transaction of the change
 * that it reports: receivers are told of it exactly if it is so. One statement where nobody wants to know.
 */
export async function insertEvent(db: Queryable, event: NewEvent): Promise<void> {
  const id = newId('evt');
  const { rows } = await db.query<{ id: string }>(
    `with stored as (${insertion})
     select id from webhooks
     where account_id = $2 and status = 'active' and deleted_at is null and (events is null or $3 = any (events))
     order by id`,
    valuesOf(event, id),
  );
  const webhookIds = rows.map((row) => row.id);
  const { accountId, type: eventType } = event;
  await insertDeliveries(db, { accountId, webhookIds, eventId: id, eventType, kind: 'event' });
}

/** Notes an event that is for one receiver only: whoever calls stores its delivery. @param id made beforehand */
export async function storeEvent(db: Queryable, event: NewEvent, id: string = newId('evt')): Promise<EventRow> {
  const { rows } = await db.query<EventRow>(`${insertion} returning *`, valuesOf(event, id));
  return rows[0]!;
}

/** Whether an agent was told since a time why its wallet on a chain is not filled up. */
export async function wasToldUnfilled(
  db: Queryable,
  { agentId, chain, reason, since }: { agentId: string; chain: string; reason: string; since: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from events where resource_id = $1 and type = 'agent.low_gas' and created_at >= $4
       and data->>'chain' = $2 and data->'top_up'->>'reason' = $3 limit 1`,
    [agentId, chain, reason, since],
  );
  return rowCount === 1;
}

/** The event, whoever's it is: for workers. */
export async function getEvent(db: Queryable, { id }: { id: string }): Promise<EventRow | undefined> {
  const { rows } = await db.query<EventRow>('select * from events where id = $1', [id]);
  return rows[0];
}

/** The event, if it is this account's. */
export async function findEvent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<EventRow | undefined> {
  const { rows } = await db.query<EventRow>('select * from events where id = $1 and account_id = $2', [id, accountId]);
  return rows[0];
}

export interface EventFilter {
  readonly accountId: string;
  readonly type?: EventType | undefined;
  readonly resourceId?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly to?: Date | undefined;
}

const filtered = `account_id = $1 and ($2::text is null or type = $2) and ($3::text is null or resource_id = $3)
  and ($4::timestamptz is null or created_at >= $4) and ($5::timestamptz is null or created_at < $5)`;

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listEvents(
  db: Queryable,
  { accountId, type, resourceId, from, to, limit, offset }: EventFilter & { limit: number; offset: number },
): Promise<EventRow[]> {
  const { rows } = await db.query<EventRow>(
    `select * from events where ${filtered} order by created_at desc, id desc limit $6 offset $7`,
    [accountId, type ?? null, resourceId ?? null, from ?? null, to ?? null, limit, offset],
  );
  return rows;
}

/** Kept counts serve all events and those of one type; what is narrower is counted row by row. */
export async function countEvents(
  db: Queryable,
  { accountId, type, resourceId, from, to }: EventFilter,
): Promise<number> {
  if (resourceId === undefined && from === undefined && to === undefined)
    return readListCount(db, { list: 'events', owner: accountId, filter: { type } });
  const { rows } = await db.query<{ count: number }>(`select count(*)::int as count from events where ${filtered}`, [
    accountId,
    type ?? null,
    resourceId ?? null,
    from ?? null,
    to ?? null,
  ]);
  return rows[0]!.count;
}
