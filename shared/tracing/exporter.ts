import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import { withoutSecrets } from '../domain/without-secrets.ts';
import type { Logger } from '../log.ts';

/** For one batch: a receiver that hangs holds one, and the queue behind it is bounded. */
const sendTimeoutMs = 5_000;

/**
 * Sends spans, without what looks like a secret. A receiver that is away is told of once, and once more when it is back;
 * spans that it did not take are gone.
 */
export function createSpanExporter({ endpoint, log }: { endpoint: string; log: Logger }): SpanExporter {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  const otlp = new OTLPTraceExporter({ url, timeoutMillis: sendTimeoutMs });
  let isFailing = false;

  function note(result: ExportResult): void {
    const failed = result.code !== ExportResultCode.SUCCESS;
    if (failed === isFailing) return;
    isFailing = failed;
    if (failed) log.warn({ error: String(result.error) }, 'traces cannot be sent; spans are lost until they can');
    else log.info('traces are sent again');
  }

  return {
    export(spans, done) {
      for (const span of spans) scrub(span);
      otlp.export(spans, (result) => {
        note(result);
        done({ code: ExportResultCode.SUCCESS });
      });
    },
    shutdown: () => otlp.shutdown(),
  };
}

/** What failed is told in words of libraries, which may repeat what they were given. */
function scrub({ attributes, status, events }: ReadableSpan): void {
  for (const each of [attributes, ...events.map((event) => event.attributes ?? {}), status as { message?: string }])
    for (const [name, value] of Object.entries(each))
      if (typeof value === 'string') (each as Record<string, unknown>)[name] = withoutSecrets(value);
}
