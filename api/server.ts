import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Express } from 'express';
import type { Logger } from '../shared/log.ts';
import { lingerAtEnd } from './linger.ts';
import { answerInstead, faultOf, refuseUnparsed } from './refuse-unparsed.ts';

/** All headers of a request together. */
const maxHeaderBytes = 16 * 1024;
const maxHeaders = 100;
const headersTimeoutMs = 10_000;
/** Headers and body. */
const requestTimeoutMs = 30_000;
/** How often the two are looked at. */
const timeoutCheckMs = 1_000;
/** After which a connection goes on which nothing moves, such as one whose client does not read its answer. */
const idleTimeoutMs = 300_000;
/** Longer than proxies keep theirs, so that it is they who close. */
const keepAliveTimeoutMs = 75_000;
const maxConnections = 10_000;
/**
 * So long, at most, connections go on being served after a stop, each with its last answer: a balancer hears of it by
 * /readyz, and a client that keeps its connection by `Connection: close`. Cutting an idle one could meet a request that
 * is on its way, whose client would not know what became of it.
 */
const noticeMs = 3_000;
/** So long, at least, new ones are taken: one that is being made while we close would be reset. */
const leastNoticeMs = 500;
/** How long requests in flight may take to end after a stop. */
const drainMs = 25_000;
const stoppingReport = {
  status: 'not_ready',
  checks: { process: { ok: false, error: 'This process is stopping.' } },
};

export interface RunningServer {
  readonly url: string;
  /**
   * Is not ready any more, and ends each connection with its next answer; after 3 s, or once none is left, takes no new
   * one. Requests in flight end within 25 s of the stop, then what is left is cut.
   */
  stop(): Promise<void>;
}

/** Listens. @param port 0 for any free one */
export async function startServer({
  app,
  host,
  port,
  log,
}: {
  app: Express;
  host: string;
  port: number;
  log: Logger;
}): Promise<RunningServer> {
  const server = createServer({
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    // Looked at here, where it is answered like everything else.
    requireHostHeader: false,
    keepAliveTimeout: keepAliveTimeoutMs,
  });
  // Node would leave out what is beyond its own bound, a credential perhaps, and say nothing.
  server.maxHeadersCount = 0;
  server.timeout = idleTimeoutMs;
  server.maxConnections = maxConnections;
  const connections = trackConnections(server);
  const open = new Set<ServerResponse>();
  let isStopping = false;
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    open.add(response);
    response.once('close', () => open.delete(response));
    if (isStopping) endConnection(response);
    const fault = faultOf(request, { maxHeaders });
    if (fault) answerInstead(response, fault);
    else if (isStopping && request.url === '/readyz') refuseReady(response);
    else app(request, response);
  };
  server.on('connection', lingerAtEnd);
  server.on('request', serve);
  // An expectation that is not known is no reason to refuse (RFC 9110, 10.1.1).
  server.on('checkExpectation', serve);
  refuseUnparsed(server, { log });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const { port: boundPort } = server.address() as AddressInfo;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}`;
  return {
    url,
    async stop() {
      isStopping = true;
      for (const response of open) endConnection(response);
      await drain(server, { connections, log });
    },
  };
}

/** This answer is the last one on its connection. One that has begun already keeps it; it is cut when idle. */
function endConnection(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader('Connection', 'close');
}

function refuseReady(response: ServerResponse): void {
  response.writeHead(503, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
  response.end(JSON.stringify(stoppingReport));
}

interface Connections {
  /** Resolves once none is open, or after that time. */
  allClosed(withinMs: number): Promise<void>;
}

function trackConnections(server: Server): Connections {
  const open = new Set<Socket>();
  let onEmpty = () => {};
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      if (open.size === 0) onEmpty();
    });
  });
  return {
    allClosed: (withinMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
        if (open.size === 0) onEmpty();
      }),
  };
}

async function drain(server: Server, { connections, log }: { connections: Connections; log: Logger }): Promise<void> {
  const cut = setTimeout(() => {
    log.warn('requests in flight did not end in time; their connections are cut');
    server.closeAllConnections();
  }, drainMs);
  await delay(leastNoticeMs);
  await connections.allClosed(noticeMs - leastNoticeMs);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  clearTimeout(cut);
}
