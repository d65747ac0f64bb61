import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import type { Logger } from '../log.ts';

/** Scrapes come from a few places, a few times a minute. */
const maxConnections = 32;
/** Of a request, which is a line and some headers. */
const requestTimeoutMs = 5_000;
/** How often that time is looked after. */
const timeoutCheckMs = 1_000;

/** Serves one registry at `/metrics`, and nothing else. @throws Error when the port cannot be listened on */
export async function serveMetrics({
  registry,
  host,
  port,
  log,
}: {
  registry: Registry;
  host: string;
  /** 0 takes a free one. */
  port: number;
  log: Logger;
}): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const server = createServer(
    {
      headersTimeout: requestTimeoutMs,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
    },
    (request, response) => {
      const { method, url = '' } = request;
      if (url.split('?', 1)[0] !== '/metrics') return answer(response, 404, 'Metrics are at /metrics.\n');
      if (method !== 'GET' && method !== 'HEAD') return answer(response, 405, 'This path has GET and HEAD only.\n');
      registry.metrics().then(
        (text) => answer(response, 200, text, registry.contentType),
        (error: unknown) => {
          log.error({ err: error }, 'metrics could not be collected');
          answer(response, 500, 'Metrics could not be collected; the log says why.\n');
        },
      );
    },
  );
  server.maxConnections = maxConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new Error(
          `Metrics cannot be served on ${host}:${port} (${cause.code}). Set PURSER_METRICS_HOST and PURSER_METRICS_PORT to an address of this machine and a free port.`,
          { cause },
        ),
      ),
    );
    server.listen(port, host, resolve);
  });
  // What keeps a process running is its work.
  server.unref();
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/metrics`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

function answer(response: ServerResponse, status: number, text: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' });
  response.end(text);
}
