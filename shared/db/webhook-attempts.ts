import type { Queryable } from './pool.ts';

/** How one request to a receiver ended. */
export interface AttemptOutcome {
  /** Null where no answer came that is one. */
  readonly statusCode: number | null;
  /** From the request to the end of the answer; null as above. */
  readonly responseTimeMs: number | null;
  /** Null where it succeeded. */
  readonly failureReason: string | null;
  /** A sentence, for whoever owns the webhook. */
  readonly failureMessage: string | null;
  /** How the answer's body begins; null where no answer came. */
  readonly responseBody: string | null;
}

/** Notes an attempt; whoever calls makes sure that its number is noted once. */
export async function insertWebhookAttempt(
  db: Queryable,
  {
    deliveryId,
    number,
    begunAt,
    outcome,
  }: { deliveryId: string; number: number; begunAt: Date; outcome: AttemptOutcome },
): Promise<void> {
  await db.query(
    `insert into webhook_attempts (delivery_id, number, status_code, response_time_ms, failure_reason, failure_message,
                                   response_body, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      deliveryId,
      number,
      outcome.statusCode,
      outcome.responseTimeMs,
      outcome.failureReason,
      outcome.failureMessage,
      outcome.responseBody,
      begunAt,
    ],
  );
}
