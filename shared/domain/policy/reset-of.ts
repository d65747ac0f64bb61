/**
 * When a sliding window next frees something: when the oldest payment in it has aged out.
 * @param oldest instant of the oldest payment that counts by its age, if any does
 * @returns ISO 8601, never in the past; null when nothing ages out
 */
export function resetOf({
  oldest,
  windowMs,
  now,
}: {
  oldest: Date | null;
  windowMs: number;
  now: Date;
}): string | null {
  if (oldest === null) return null;
  return new Date(Math.max(oldest.getTime() + windowMs, now.getTime())).toISOString();
}
