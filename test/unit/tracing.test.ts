import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { apiConfig, workerConfig } from '../../shared/config.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What a process has loaded that runs this, of packages in CommonJS as those of OpenTelemetry are. */
function loadedBy(code: string): string[] {
  const script = `
    import { Module } from 'node:module';
    ${code}
    console.log(JSON.stringify(Object.keys(Module._cache)));
    process.exit(0);`;
  const args = ['--input-type=module', '--eval', script];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })) as string[];
}
const opened = (options: string) => `
  await import('./api/app.ts');
  await import('./worker/run.ts');
  const { openTracing } = await import('./shared/tracing/open-tracing.ts');
  const tracing = await openTracing(${options}, { service: 'purser-test', environment: 'sandbox', log: console });`;

describe('tracing', () => {
  it('is not even loaded where no endpoint is named', () => {
    const loaded = loadedBy(opened('undefined'));
    expect(loaded.length).toBeGreaterThan(100);
    // The package of the interface, which does nothing by itself, comes with prom-client.
    expect(loaded.filter((file) => /@opentelemetry\/(?!api\/)|interceptors-opentelemetry/.test(file))).toEqual([]);
  });

  it('changes no other library where one is', () => {
    const loaded = loadedBy(opened("{ endpoint: 'http://127.0.0.1:1', ratio: 1 }"));
    expect(loaded.filter((file) => file.includes('@opentelemetry/sdk-trace-node'))).not.toEqual([]);
    expect(loaded.filter((file) => /@opentelemetry\/(auto-)?instrumentation|require-in-the-middle/.test(file))).toEqual(
      [],
    );
  });
});

describe('the configuration of traces', () => {
  const common = {
    PURSER_ENV: 'sandbox',
    TEMPORAL_ADDRESS: '127.0.0.1:7233',
    DATABASE_URL: 'postgres://u:p@127.0.0.1/purser',
    PURSER_CHAINS: 'eip155:84532',
  };
  const ofApi = (env: Record<string, string>) =>
    apiConfig({ ...common, PURSER_WEBHOOK_PUBLIC_KEY_FILE: '/k', ...env }).traces;
  const ofWorker = (env: Record<string, string>) =>
    workerConfig({
      ...{ ...common, PURSER_QUEUES: 'wallet-chain', PURSER_RPC_EIP155_84532: 'https://node.example.com' },
      ...env,
    }).traces;

  it.each([
    ['api', ofApi],
    ['worker', ofWorker],
  ])('asks for none by default, and for all once an endpoint is named: %s', (_name, read) => {
    expect(read({})).toBeUndefined();
    expect(read({ PURSER_TRACE_RATIO: '0.5' })).toBeUndefined();
    const endpoint = 'http://collector.internal:4318';
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })).toEqual({ endpoint, ratio: 1 });
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, PURSER_TRACE_RATIO: '0.25' })).toEqual({
      endpoint,
      ratio: 0.25,
    });
    for (const [name, value] of [
      ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4317'],
      ['PURSER_TRACE_RATIO', '1.1'],
      ['PURSER_TRACE_RATIO', '-1'],
      ['PURSER_TRACE_RATIO', 'all'],
    ] as const)
      expect(() => read({ [name]: value })).toThrow(name);
  });
});
