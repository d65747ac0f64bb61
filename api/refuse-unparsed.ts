import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PurserError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { linger } from './linger.ts';
import { renderError } from './render/error.ts';

/** What the HTTP parser says, where it is not simply that the request is none. */
const refusals: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: { status: 431, message: 'The path and the headers are too large: 16 KiB together are taken.' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, message: 'The chunk extensions of the body are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    message: 'The request took too long: headers are waited for 10 s, and the whole request 30 s.',
  },
};
const malformed: Refusal = { status: 400, message: 'This is not a well-formed HTTP request.' };

export interface Refusal {
  readonly status: number;
  readonly message: string;
}

/**
 * Answers what is refused before there is a request, or before it has come as a whole: with the error object, and as the
 * last answer on its connection. What was asked before on the same connection is answered first.
 */
export function refuseUnparsed(server: Server, { log }: { log: Pick<Logger, 'debug'> }): void {
  const lastOn = new WeakMap<Duplex, ServerResponse>();
  const refused = new WeakSet<Duplex>();
  server.on('request', (request, response) => lastOn.set(request.socket, response));

  const refuse = (socket: Socket, refusal: Refusal) => {
    const last = lastOn.get(socket);
    if (!last || (last.req.complete && last.writableFinished)) writeRefusal(socket, refusal);
    // What came was no further request, but the rest of one that has its answer, or is being answered.
    else if (!last.req.complete && last.writableFinished) linger(socket);
    else if (!last.req.complete) answerInstead(last, refusal);
    else last.once('close', () => writeRefusal(socket, refusal));
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (refused.has(socket)) return;
    refused.add(socket);
    log.debug({ code: error.code }, 'what came was no request');
    if (socket.writable && error.code !== 'ECONNRESET')
      refuse(socket as Socket, refusals[error.code ?? ''] ?? malformed);
    else socket.destroy();
  });
  // Nobody may tunnel through us; without a listener the connection would be closed without a word.
  server.on('connect', (_request, socket) => {
    socket.on('error', () => socket.destroy());
    writeRefusal(socket as Socket, { status: 400, message: 'CONNECT is not for this server.' });
  });
}

/**
 * What is wrong with a request that the parser lets through: it would be read differently by a proxy before us, or Node
 * would leave out what is too much.
 */
export function faultOf(request: IncomingMessage, { maxHeaders }: { maxHeaders: number }): Refusal | undefined {
  if (request.rawHeaders.length / 2 > maxHeaders)
    return { status: 431, message: `There are more than ${maxHeaders} headers.` };
  const hosts = request.headersDistinct.host ?? [];
  if (hosts.length > 1 || (hosts.length === 0 && request.httpVersion !== '1.0'))
    return { status: 400, message: 'Send the header Host once.' };
  return undefined;
}

/** Answers a request, of which more may be to come, as the last one on its connection. */
export function answerInstead(response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent) {
    // An answer that has begun cannot be taken back.
    response.destroy();
    return;
  }
  const requestId = response.getHeader('X-Request-Id');
  const { headers, body } = renderRefusal(refusal, typeof requestId === 'string' ? requestId : randomUUID());
  response.writeHead(refusal.status, headers);
  response.end(body);
}

function writeRefusal(socket: Socket, refusal: Refusal): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { headers, body } = renderRefusal(refusal, randomUUID());
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.write(`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
  linger(socket);
}

function renderRefusal({ message }: Refusal, requestId: string) {
  const body = JSON.stringify(renderError(new PurserError('invalid_request', message), { requestId }));
  const headers = {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': requestId,
    Connection: 'close',
  };
  return { headers, body };
}
