import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LOOPBACK } from '../../dev/ports.ts';

/** What one request is answered; a body is JSON's value, or text. */
export interface EsploraAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Has the last word about each answer, to lie. @param path with `/` in front */
export type Liar = (path: string, answer: EsploraAnswer) => EsploraAnswer;

/** Answers a request by itself, which is then not handed on; undefined: it is. @param body of a POST, else empty */
export type Substitute = (path: string, body: string) => EsploraAnswer | undefined;

/** A server in front of a real one, which fails or lies as it is told. */
export interface EsploraProxy {
  readonly url: string;
  /** Takes the place of what was told before; nothing: a plain relay. */
  set(faults: { readonly down?: boolean; readonly answer?: Liar; readonly instead?: Substitute }): void;
  /** Paths that were asked for since the last `set`. */
  asked(): readonly string[];
  stop(): Promise<void>;
}

/** @param target URL of the real one */
export async function startEsploraProxy({ target }: { target: string }): Promise<EsploraProxy> {
  let faults: Parameters<EsploraProxy['set']>[0] = {};
  let asked: string[] = [];
  const server = createServer(async (request, response) => {
    const path = request.url!;
    asked.push(path);
    if (faults.down) return void request.socket.resetAndDestroy();
    try {
      const sent = await read(request);
      const told = faults.instead?.(path, sent) ?? (await relay(request, { url: `${target}${path}`, body: sent }));
      const { status, body } = faults.answer?.(path, told) ?? told;
      const isText = typeof body === 'string';
      response.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' });
      response.end(isText ? body : JSON.stringify(body));
    } catch {
      request.socket.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
  return {
    url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}`,
    set(wanted) {
      faults = wanted;
      asked = [];
    },
    asked: () => asked,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function read(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

async function relay(
  { method }: IncomingMessage,
  { url, body }: { url: string; body: string },
): Promise<EsploraAnswer> {
  const answer = await fetch(url, method === 'POST' ? { method, body } : {});
  const text = await answer.text();
  const isJson = answer.headers.get('content-type') === 'application/json';
  return { status: answer.status, body: isJson ? (JSON.parse(text) as unknown) : text };
}
