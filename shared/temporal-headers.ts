/** Headers of workflows and activities that say to what they belong; nothing is decided by them. */
export const contextHeaders = {
  /** `{ traceparent }`: of @temporalio/interceptors-opentelemetry, which reads and writes it in clients and activities. */
  trace: '_tracer-data',
  /** {@link LogHeader}: ids that the lines of whatever follows carry. */
  log: 'purser-log',
} as const;

/** Who asked, so that a line of a worker leads to the request of the api. */
export interface LogHeader {
  readonly request_id?: string;
}

/** What a run of a workflow tells of itself at its end, for its span. */
export interface EndedRun {
  readonly workflowType: string;
  readonly workflowId: string;
  readonly runId: string;
  /** `traceparent` of whoever started it. */
  readonly parent: string;
  /** Known before the run ends, so that what it starts is within it. */
  readonly spanId: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly outcome: 'completed' | 'failed' | 'continued' | 'cancelled';
  /** AccountId, AgentId, Chain as the run was started with. */
  readonly accountId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly chain?: string | undefined;
}
