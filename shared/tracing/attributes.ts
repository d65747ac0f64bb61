import type { Attributes } from '@opentelemetry/api';
import type { TraceAttributes } from './tracing.ts';

/** Ids as they are called in logs, under our own prefix in traces; what has a name of the field's keeps it. */
export function toAttributes(given: TraceAttributes): Attributes {
  const known = Object.entries(given).filter(([name, value]) => value !== undefined && name !== 'trace_id');
  return Object.fromEntries(known.map(([name, value]) => [name.includes('.') ? name : `purser.${name}`, value]));
}
