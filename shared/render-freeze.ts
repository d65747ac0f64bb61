import type { ShownFreeze } from './db/freezes.ts';

/** A freeze as on the wire: how much it stops, why, by whom, and since when. */
export function renderFreeze({ scope, reason, frozen_by, created_at }: ShownFreeze) {
  return { scope, reason, frozen_by, frozen_at: new Date(created_at).toISOString() };
}
