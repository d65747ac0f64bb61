import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Express } from 'express';
import { PurserError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { renderError } from './render/error.ts';

/** All headers of a request together. */
const maxHeaderBytes = 16 * 1024;
const maxHeaders = 100;
const headersTimeoutMs = 10_000;
/** Headers and body. */
const requestTimeoutMs = 30_000;
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
    keepAliveTimeout: keepAliveTimeoutMs,
  });
  server.maxHeadersCount = maxHeaders;
  server.maxConnections = maxConnections;
  const connections = trackConnections(server);
  const open = new Set<ServerResponse>();
  let isStopping = false;
  server.on('request', (request, response) => {
    open.add(response);
    response.once('close', () => open.delete(response));
    if (isStopping) endConnection(response);
    if (isStopping && request.url === '/readyz') refuseReady(response);
    else app(request, response);
  });
  server.on('clientError', refuseUnparsed);
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

/** Answers what the HTTP parser refused before there was a request. */
function refuseUnparsed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const message = tooLarge ? 'The request headers are too large.' : 'This is not a well-formed HTTP request.';
  const body = JSON.stringify(renderError(new PurserError('invalid_request', message), {}));
  socket.end(
    `HTTP/1.1 ${tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request'}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
