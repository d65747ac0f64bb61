import {
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { Resource } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  type IdGenerator,
  NodeTracerProvider,
  ParentBasedSampler,
  RandomIdGenerator,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';
import { ATTR_SERVICE_NAME } from '@opentelemetry/semantic-conventions';
import { readTraceParent, type TraceParent, writeTraceParent } from '../domain/trace-parent.ts';
import type { Logger } from '../log.ts';
import { toAttributes } from './attributes.ts';
import { createSpanExporter } from './exporter.ts';
import { createActivityInterceptor, createClientInterceptor } from './temporal.ts';
import type { Tracing, TracingOptions } from './tracing.ts';

/** Ended spans that wait to be sent, about 2 kB each; more are thrown away. */
const maxQueueSize = 4_096;
const maxExportBatchSize = 512;
const sendEveryMs = 1_000;
/** Of one attribute; messages of errors may be long. */
const attributeLength = 500;
const stopMs = 2_000;

/** OpenTelemetry for this process: our own spans, and nothing that changes other libraries. */
export function startTracing({
  endpoint,
  ratio,
  service,
  environment,
  log,
}: TracingOptions & { service: string; environment: string; log: Logger }): Tracing {
  const processor = new BatchSpanProcessor(createSpanExporter({ endpoint, log }), {
    ...{ maxQueueSize, maxExportBatchSize },
    scheduledDelayMillis: sendEveryMs,
  });
  const sampler = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  const nextSpan: { id?: string | undefined } = {};
  const provide = (name: string) =>
    new NodeTracerProvider({
      resource: new Resource({
        [ATTR_SERVICE_NAME]: name,
        'service.namespace': 'purser',
        'deployment.environment.name': environment,
      }),
      ...{ sampler, idGenerator: createIds(nextSpan), spanProcessors: [processor] },
      spanLimits: { attributeValueLengthLimit: attributeLength },
    });
  const provider = provide(service);
  // Context and propagation of the process: what the interceptors of Temporal read.
  provider.register();
  const tracer = provider.getTracer('purser');
  const signers = new Map<number, ReturnType<typeof provider.getTracer>>();
  /** Signers connect to nobody: what they say of their work is sent from here, under their name. */
  const tracerOf = (party: number) => {
    const known = signers.get(party) ?? provide(`purser-signer-${party}`).getTracer('purser');
    signers.set(party, known);
    return known;
  };

  return {
    startRequest({ name, attributes, claimed }) {
      const client = readTraceParent(claimed);
      const links = client ? [{ context: toSpanContext(client) }] : [];
      const options = { kind: SpanKind.SERVER, attributes: toAttributes(attributes), links };
      const span = tracer.startSpan(name, options, ROOT_CONTEXT);
      return {
        traceId: span.spanContext().traceId,
        run: (work) => context.with(trace.setSpan(ROOT_CONTEXT, span), work),
        end(o) {
          span.updateName(o.name);
          span.setAttributes(toAttributes(o.attributes));
          if (o.failed) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },

    async callSigner({ party, path }, work) {
      if (trace.getActiveSpan() === undefined) return work();
      const attributes = toAttributes({ signer: party, 'url.path': path });
      return tracer.startActiveSpan(`signer ${party} ${path}`, { kind: SpanKind.CLIENT, attributes }, async (span) => {
        const sentMs = Date.now();
        const { traceId, spanId, traceFlags } = span.spanContext();
        const isSampled = (traceFlags & TraceFlags.SAMPLED) !== 0;
        try {
          return await work({
            traceparent: writeTraceParent({ traceId, spanId, isSampled }),
            served: (durationMs) => noteServed(tracerOf(party), { path, sentMs, durationMs }),
          });
        } catch (error) {
          fail(span, error);
          throw error;
        } finally {
          span.end();
        }
      });
    },

    noteRun({ parent, spanId, startMs, endMs, outcome, workflowType, ...ids }) {
      const above = readTraceParent(parent);
      if (!above) return;
      nextSpan.id = spanId;
      const attributes = toAttributes({
        ...{ workflow_id: ids.workflowId, run_id: ids.runId, outcome },
        ...{ account_id: ids.accountId, agent_id: ids.agentId, chain: ids.chain },
      });
      const span = tracer.startSpan(`RunWorkflow:${workflowType}`, { startTime: startMs, attributes }, within(above));
      nextSpan.id = undefined;
      if (outcome === 'failed') span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(endMs);
    },

    clientInterceptors: [createClientInterceptor(tracer)],
    activityInterceptors: createActivityInterceptor(tracer),

    async stop() {
      await Promise.race([processor.shutdown(), new Promise((resolve) => setTimeout(resolve, stopMs).unref())]);
    },
  };
}

/** Random ids; the one of a workflow's run was known before its span is made. */
function createIds(nextSpan: { id?: string | undefined }): IdGenerator {
  const random = new RandomIdGenerator();
  return {
    generateTraceId: random.generateTraceId,
    generateSpanId: () => nextSpan.id ?? random.generateSpanId(),
  };
}

/** The signer tells how long it took, not when: clocks differ. So its span is put into the middle of the call's. */
function noteServed(
  tracer: ReturnType<NodeTracerProvider['getTracer']>,
  { path, sentMs, durationMs }: { path: string; sentMs: number; durationMs: number },
): void {
  const callMs = Date.now() - sentMs;
  const servedMs = Math.min(Math.max(durationMs, 0), callMs);
  const startTime = sentMs + (callMs - servedMs) / 2;
  tracer.startSpan(path, { kind: SpanKind.SERVER, startTime }).end(startTime + servedMs);
}

function fail(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : String(error) });
}

function within(parent: TraceParent): Context {
  return trace.setSpanContext(ROOT_CONTEXT, { ...toSpanContext(parent), isRemote: true });
}

function toSpanContext({ traceId, spanId, isSampled }: TraceParent): SpanContext {
  return { traceId, spanId, traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE };
}
