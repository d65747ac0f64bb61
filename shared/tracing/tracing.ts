import type { WorkflowClientInterceptor } from '@temporalio/client';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { EndedRun } from '../temporal-headers.ts';

/** Ids and short words only: no amount, no body, no key, no receipt. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A request to the api, in a trace of its own. */
export interface RequestSpan {
  readonly traceId: string;
  /** What `work` does, also later, is within the span. */
  run(work: () => void): void;
  end(o: { name: string; attributes: TraceAttributes; failed: boolean }): void;
}

/** A call of a signer, as the trace sees it. */
export interface SignerCall {
  /** For the header of the request; a hint, which no signature covers. */
  readonly traceparent: string;
  /** How long the signer worked on it by its own word, in milliseconds; becomes a span of the signer. */
  served(durationMs: number): void;
}

/** Traces of a process, where OTEL_EXPORTER_OTLP_ENDPOINT asks for them. */
export interface Tracing {
  /**
   * @param p.claimed the `traceparent` that a client sent: linked to and not followed, so that nobody outside decides which
   *   traces are kept or puts spans into those of others
   */
  startRequest(p: { name: string; attributes: TraceAttributes; claimed: string | undefined }): RequestSpan;
  /** Stands around a call of a signer; without a trace around it, it only calls. */
  callSigner<T>(p: { party: number; path: string }, work: (call?: SignerCall) => Promise<T>): Promise<T>;
  /** For clients: spans, and the trace for what they start. */
  readonly clientInterceptors: readonly WorkflowClientInterceptor[];
  /** For workers: a span for each activity of a run that belongs to a trace. */
  readonly activityInterceptors: ActivityInterceptorsFactory;
  /** A run of a workflow has ended. */
  noteRun(run: EndedRun): void;
  /** Sends what is left, for two seconds at most. */
  stop(): Promise<void>;
}

/** Where traces go. */
export interface TracingOptions {
  /** Base URL of an OTLP/HTTP receiver; `/v1/traces` is added. */
  readonly endpoint: string;
  /** Share of traces that are kept, from 0 to 1. */
  readonly ratio: number;
}
