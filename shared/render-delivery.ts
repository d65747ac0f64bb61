import type { AttemptRow, DeliveryWithAttempts } from './db/delivery-history.ts';

/** A delivery as on the wire: what is told beside its attempts is of the last one. */
export function renderDelivery(row: DeliveryWithAttempts) {
  return {
    id: row.id,
    webhook_id: row.webhook_id,
    event_id: row.event_id,
    event_type: row.event_type,
    kind: row.kind,
    attempt: row.attempt,
    status: row.status,
    status_code: row.status_code,
    response_time_ms: row.response_time_ms,
    failure_reason: row.failure_reason,
    failure_message: row.failure_message,
    response_body: row.response_body,
    next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    attempts: row.attempts.map(renderAttempt),
  };
}

function renderAttempt(row: AttemptRow) {
  return {
    number: row.number,
    status_code: row.status_code,
    response_time_ms: row.response_time_ms,
    failure_reason: row.failure_reason,
    failure_message: row.failure_message,
    response_body: row.response_body,
    created_at: row.created_at.toISOString(),
  };
}
