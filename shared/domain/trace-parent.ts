/** The header that names trace and span: version, trace id, span id, flags. @see https://www.w3.org/TR/trace-context/ */
const shape = /^00-([0-9a-f]{32})-([0-9a-f]{16})-0([01])$/;

export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether whoever began the trace keeps it. */
  readonly isSampled: boolean;
}

/** What a `traceparent` says, from whomever: a hint and no more. Undefined where it says nothing that can be used. */
export function readTraceParent(text: unknown): TraceParent | undefined {
  const [, traceId, spanId, flag] = (typeof text === 'string' && shape.exec(text)) || [];
  if (traceId === undefined || spanId === undefined || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: flag === '1' };
}

export function writeTraceParent({ traceId, spanId, isSampled }: TraceParent): string {
  return `00-${traceId}-${spanId}-0${isSampled ? 1 : 0}`;
}
