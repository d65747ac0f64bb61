import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** A span as it came, with what a test looks at. */
export interface ReceivedSpan {
  readonly service: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, string>>;
  readonly links: readonly string[];
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}
type Attributes = readonly { readonly key: string; readonly value: Value }[];
/** `ExportTraceServiceRequest` as JSON. @see https://opentelemetry.io/docs/specs/otlp/#otlphttp */
interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly traceId: string;
        readonly spanId: string;
        readonly parentSpanId?: string;
        readonly name: string;
        readonly startTimeUnixNano: string;
        readonly endTimeUnixNano: string;
        readonly attributes: Attributes;
        readonly links?: readonly { readonly traceId: string }[];
      }[];
    }[];
  }[];
}

export interface OtlpReceiverDouble {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** Everything as it came. */
  text(): string;
  /** Refuses everything, until told that it is back. */
  isAway: boolean;
  readonly refused: number;
  /** Answers nobody before that is over. */
  held: Promise<void>;
  stop(): Promise<void>;
}

/** Double of a collector: takes OTLP over HTTP as JSON, and keeps it. */
export async function startOtlpReceiverDouble(): Promise<OtlpReceiverDouble> {
  const spans: ReceivedSpan[] = [];
  const texts: string[] = [];
  const state = { isAway: false, refused: 0, held: Promise.resolve() };
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as Request;
    await state.held;
    if (state.isAway || request.url !== '/v1/traces') {
      state.refused += 1;
      response.writeHead(400).end();
      return;
    }
    texts.push(JSON.stringify(body));
    spans.push(...spansOf(body));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    text: () => texts.join('\n'),
    get isAway() {
      return state.isAway;
    },
    set isAway(value) {
      state.isAway = value;
    },
    get held() {
      return state.held;
    },
    set held(value) {
      state.held = value;
    },
    get refused() {
      return state.refused;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function spansOf({ resourceSpans }: Request): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap((scope) =>
      scope.spans.map((span) => ({
        service: read(resource.attributes)['service.name']!,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        name: span.name,
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        attributes: read(span.attributes),
        links: (span.links ?? []).map(({ traceId }) => traceId),
      })),
    ),
  );
}

function read(attributes: Attributes): Record<string, string> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, String(Object.values(value)[0])]));
}
