import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { certificate } from './certificate.ts';

export interface TestTarget {
  readonly url: string;
  /** Connections that were made to it. */
  connections(): number;
  stop(): Promise<void>;
}

/** A server that answers requests. */
export function startTarget(listener: RequestListener, { tls = false }: { tls?: boolean } = {}): Promise<TestTarget> {
  // It closes no connection by itself: what is gone was closed by the other side.
  const options = { keepAliveTimeout: 0 };
  const server = tls ? createTlsServer({ ...certificate, ...options }, listener) : createServer(options, listener);
  return listen(server, tls ? 'https' : 'http');
}

/** A server that does not keep to HTTP. */
export function startRawTarget(onConnection: (socket: Socket) => void): Promise<TestTarget> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    onConnection(socket);
  });
  return listen(server, 'http');
}

async function listen(server: Server, scheme: string): Promise<TestTarget> {
  let connections = 0;
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    async stop() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
