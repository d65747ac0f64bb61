import type { Logger } from '../log.ts';
import type { Tracing, TracingOptions } from './tracing.ts';

/**
 * Starts tracing where it is asked for. Without, OpenTelemetry is not even loaded.
 * @param p.service what the process is called in traces, e.g. `purser-api`
 */
export async function openTracing(
  options: TracingOptions | undefined,
  p: { service: string; environment: string; log: Logger },
): Promise<Tracing | undefined> {
  if (options === undefined) return undefined;
  const { startTracing } = await import('./start-tracing.ts');
  return startTracing({ ...options, ...p });
}
