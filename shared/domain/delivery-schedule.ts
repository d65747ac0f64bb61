/** When deliveries are attempted, and when it is over. Durations in milliseconds. */
export interface DeliverySchedule {
  /** Before each attempt, counted from the end of the one before; the first is that of the first attempt. */
  readonly delaysMs: readonly number[];
  /** A receiver may ask for a longer pause, up to this. */
  readonly maxRetryAfterMs: number;
  /** A webhook none of whose attempts has succeeded for so long is disabled. */
  readonly disableAfterMs: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Decisions, section 8. */
export const deliverySchedule: DeliverySchedule = {
  delaysMs: [0, 5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour],
  maxRetryAfterMs: day,
  disableAfterMs: 5 * day,
};

/** Of each delay, so that what failed together is not repeated together. */
const jitter = 0.1;

/**
 * When the attempt after this one is due; undefined when this one was the last.
 * @param attempt the one that has just failed, counted from 1
 * @param now when it had failed
 * @param random from 0 up to 1, for the jitter
 * @param retryAfter not before then, if the receiver said so
 */
export function nextAttemptAt(
  { delaysMs, maxRetryAfterMs }: DeliverySchedule,
  { attempt, now, random, retryAfter }: { attempt: number; now: Date; random: number; retryAfter: Date | undefined },
): Date | undefined {
  const delayMs = delaysMs[attempt];
  if (delayMs === undefined) return undefined;
  const plannedMs = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  const wantedMs = Math.min((retryAfter?.getTime() ?? 0) - now.getTime(), maxRetryAfterMs);
  return new Date(now.getTime() + Math.max(plannedMs, wantedMs));
}

/** Seconds, as a number without a sign. Longer ones are nonsense, and would pass what a date can hold. */
const seconds = /^\d{1,10}$/;
/** The three ways to write a date in HTTP; the last one has no zone in it and means UTC (RFC 9110, 5.6.7). */
const dates = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/**
 * What `Retry-After` says (RFC 9110, 10.2.3); undefined where that is nothing, or nothing that can be understood. Where it
 * came several times, the latest counts.
 */
export function readRetryAfter(
  header: string | readonly string[] | undefined,
  { now }: { now: Date },
): Date | undefined {
  const told = [header ?? []].flat().flatMap((text) => readOne(text.trim(), now) ?? []);
  return told.length === 0 ? undefined : new Date(Math.max(...told));
}

function readOne(text: string, now: Date): number | undefined {
  if (seconds.test(text)) return now.getTime() + Number(text) * second;
  if (!dates.some((shape) => shape.test(text))) return undefined;
  const instant = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(instant) ? undefined : instant;
}

/** Why a webhook is disabled after an attempt that failed, as whoever owns it reads it; undefined: it is not. */
export function reasonToDisable(
  { disableAfterMs }: DeliverySchedule,
  { statusCode, failingSince, now }: { statusCode: number | null; failingSince: Date; now: Date },
): string | undefined {
  if (statusCode === gone) return 'The receiver answered 410 Gone: it wants no more deliveries.';
  if (now.getTime() - failingSince.getTime() < disableAfterMs) return undefined;
  return `No attempt has succeeded since ${failingSince.toISOString()}.`;
}

const gone = 410;
