import type { EventRow } from './db/events.ts';

/** An event as on the wire: what a receiver is sent, and what `GET /events` shows; the same bytes whenever it is written. */
export function renderEvent(row: EventRow, { livemode }: { livemode: boolean }) {
  return {
    id: row.id,
    type: row.type,
    created_at: row.created_at.toISOString(),
    api_version: row.api_version,
    livemode,
    data: row.data,
  };
}
