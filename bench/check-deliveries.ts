import type { Pool } from '../shared/db/pool.ts';
import type { DeliverySchedule } from '../shared/domain/delivery-schedule.ts';

/** Clocks of one machine, rounded to the millisecond twice. */
const toleranceMs = 2;
/** The least share of a delay; the rest is jitter. */
const leastShare = 0.9;

/** What a receiver saw of one request. */
export interface SeenRequest {
  readonly eventId: string;
  readonly atMs: number;
  /** What it answered. */
  readonly status: number;
}

/** What is wrong, a sentence each; and how late attempts were, in milliseconds. */
export interface CheckedDeliveries {
  readonly faults: readonly string[];
  readonly latenessMs: readonly number[];
  readonly attempts: number;
}

interface StoredAttempt {
  readonly delivery_id: string;
  readonly event_id: string;
  readonly status: string;
  readonly attempt: number;
  readonly number: number;
  readonly status_code: number | null;
  readonly response_time_ms: number | null;
  readonly created_at: Date;
}

/**
 * Holds the attempts of deliveries that have ended to their schedule and to what the receiver saw itself.
 * @param seen requests in the order in which they came
 */
export async function checkDeliveries(
  pool: Pool,
  { webhookId, schedule, seen }: { webhookId: string; schedule: DeliverySchedule; seen: readonly SeenRequest[] },
): Promise<CheckedDeliveries> {
  const { rows } = await pool.query<StoredAttempt>(
    `select d.id as delivery_id, d.event_id, d.status, d.attempt, a.number, a.status_code, a.response_time_ms, a.created_at
     from webhook_deliveries d left join webhook_attempts a on a.delivery_id = d.id
     where d.webhook_id = $1 order by d.id, a.number`,
    [webhookId],
  );
  const requests = Map.groupBy(seen, ({ eventId }) => eventId);
  const [faults, latenessMs]: [string[], number[]] = [[], []];
  for (const [id, attempts] of Map.groupBy(rows, ({ delivery_id }) => delivery_id)) {
    const [{ event_id, status, attempt }] = attempts as [StoredAttempt];
    const received = requests.get(event_id) ?? [];
    const fault = (what: string) => faults.push(`${id} ${what}`);
    if (status === 'pending') fault('has not ended');
    if (attempts.some(({ number }, index) => number !== index + 1) || attempt !== attempts.length)
      fault(`counts ${attempt} attempts and has ${attempts.map(({ number }) => number).join()}`);
    const noted = attempts.map(({ status_code }) => status_code).join();
    const answered = received.map((one) => one.status).join();
    if (noted !== answered) fault(`notes answers ${noted}; the receiver gave ${answered}`);
    if (!received.some((one) => one.status === 200)) fault('was never taken');
    for (let index = 1; index < attempts.length; index += 1) {
      const [before, after] = [attempts[index - 1]!, attempts[index]!];
      const plannedMs = schedule.delaysMs[index]!;
      const endedMs = before.created_at.getTime() + (before.response_time_ms ?? 0);
      const waitedMs = after.created_at.getTime() - endedMs;
      if (waitedMs < plannedMs * leastShare - toleranceMs)
        fault(`waited ${waitedMs} ms for attempt ${index + 1} in place of ${plannedMs}`);
      latenessMs.push(waitedMs - plannedMs);
      const betweenMs = received[index]!.atMs - received[index - 1]!.atMs;
      if (betweenMs < plannedMs * leastShare - toleranceMs)
        fault(`was received ${betweenMs} ms after attempt ${index} in place of ${plannedMs}`);
    }
  }
  return { faults, latenessMs, attempts: rows.length };
}
