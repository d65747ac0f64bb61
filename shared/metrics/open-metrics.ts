import { readFileSync } from 'node:fs';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Logger } from '../log.ts';
import { serveMetrics } from './serve-metrics.ts';

/** Where metrics are served: a port of their own, for whoever watches the installation and nobody else. */
export interface MetricsAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
}

/** The metrics of one process. */
export interface Metrics {
  /** Where everything of the process that is measured is registered, whether or not it is served. */
  readonly registry: Registry;
  /** Waits for a scrape under way and takes no more. */
  stop(): Promise<void>;
}

/**
 * Makes the registry of a process and serves it where that is wanted: `GET /metrics`, in Prometheus' text format.
 * @param address undefined: nothing is served, and nothing of the process itself is measured
 * @param p.process what it is called, e.g. `api`
 * @throws Error when the port cannot be listened on
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export async function openMetrics(
  address: MetricsAddress | undefined,
  p: { process: string; log: Logger },
): Promise<Metrics> {
  const registry = new Registry();
  new Gauge({
    name: 'purser_build_info',
    help: 'Always 1; its labels say which program of which version this is.',
    labelNames: ['process', 'version', 'node'],
    registers: [registry],
  }).set({ process: p.process, version: programVersion(), node: process.version }, 1);
  if (address === undefined) return { registry, stop: async () => {} };
  collectDefaultMetrics({ register: registry });
  const server = await serveMetrics({ ...address, registry, log: p.log });
  p.log.info({ url: server.url }, 'metrics are served');
  return { registry, stop: () => server.stop() };
}

function programVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
