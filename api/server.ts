import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
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
/** How long requests in flight may take to end after a stop. */
const drainMs = 10_000;

export interface RunningServer {
  readonly url: string;
  /** Takes nothing new, lets requests in flight end within 10 s, then cuts what is left. */
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
  server.on('request', (request, response) => {
    // While stopping, each answer is the last on its connection.
    if (!server.listening) response.setHeader('Connection', 'close');
    app(request, response);
  });
  server.on('clientError', refuseUnparsed);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const { port: boundPort } = server.address() as AddressInfo;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}`;
  return { url, stop: () => stop(server, log) };
}

async function stop(server: Server, log: Logger): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const cut = setTimeout(() => {
    log.warn('requests in flight did not end in time; their connections are cut');
    server.closeAllConnections();
  }, drainMs);
  await closed;
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
