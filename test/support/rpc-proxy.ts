import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { LOOPBACK } from '../../dev/ports.ts';
import { asOfBlock, hideNewer, type RpcAnswer, type RpcCall } from './lagging-node.ts';

/** What the endpoint does wrong until it is told otherwise; without any it is a plain relay. */
export interface RpcFaults {
  /** Connections are reset before anything is read. */
  readonly down?: boolean;
  /** Requests are read and never answered, nor handed on. */
  readonly hang?: boolean;
  /** Share of requests, 0 to 1, that reach the node and whose answer is lost on its way back. */
  readonly dropAnswers?: number;
  /** Time before a request is handed on, the same for each or drawn between two. */
  readonly delayMs?: number | readonly [min: number, max: number];
  /** Everything is told as of so many blocks before the newest. */
  readonly lagBlocks?: number;
  /** Answered instead of handing the request on; `retryAfter` is the header's text. */
  readonly status?: 429 | 503;
  readonly retryAfter?: string;
  /** Has the last word about each answer, to lie. */
  readonly answer?: (method: string, params: readonly unknown[], answer: RpcAnswer) => RpcAnswer;
  /** 0 to 1, for `dropAnswers` and `delayMs`; default `Math.random`. */
  readonly random?: () => number;
}

/** An endpoint in front of a node, which fails as it is told. */
export interface RpcProxy {
  readonly url: string;
  readonly port: number;
  /** Takes the place of all faults set before; connections that hang are reset. */
  set(faults: RpcFaults): void;
  /** How many calls came in, each of a batch counted; of one method, if given. */
  requests(method?: string): number;
  /** Nobody listens afterwards: connections are refused. */
  stop(): Promise<void>;
}

/**
 * Starts a JSON-RPC endpoint that hands requests on to `target`. A batch goes on as one batch, and its answers come
 * back in its order.
 * @param port default: any free one
 */
export async function startRpcProxy({ target, port = 0 }: { target: string; port?: number }): Promise<RpcProxy> {
  let faults: RpcFaults = {};
  const counts = new Map<string, number>();
  const sockets = new Set<Socket>();
  const hanging = new Set<Socket>();

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  });
  server.on('connection', (socket) => {
    if (faults.down) return void socket.resetAndDestroy();
    sockets.add(socket);
    socket.on('close', () => {
      sockets.delete(socket);
      hanging.delete(socket);
    });
    socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host: LOOPBACK }, resolve);
  });
  const listening = (server.address() as AddressInfo).port;

  return {
    url: `http://${LOOPBACK}:${listening}`,
    port: listening,
    set(wanted) {
      faults = wanted;
      for (const socket of faults.down ? sockets : hanging) socket.resetAndDestroy();
    },
    requests(method) {
      if (method !== undefined) return counts.get(method) ?? 0;
      return [...counts.values()].reduce((sum, count) => sum + count, 0);
    },
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const calls = JSON.parse(body) as RpcCall | RpcCall[];
    const batch = Array.isArray(calls) ? calls : [calls];
    for (const { method } of batch) counts.set(method, (counts.get(method) ?? 0) + 1);
    // What holds is what was set when the request came.
    const now = faults;
    if (now.hang) return void hanging.add(request.socket);
    if (now.delayMs !== undefined) await wait(drawMs(now));
    if (now.status !== undefined) return refuse(response, now);
    const answers = await ask(batch, now);
    if (now.dropAnswers && random(now) < now.dropAnswers) return void request.socket.resetAndDestroy();
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(Array.isArray(calls) ? answers : answers[0]));
  }

  async function ask(batch: readonly RpcCall[], { lagBlocks = 0, answer }: RpcFaults) {
    if (batch.length === 0) return [];
    const asOf = lagBlocks > 0 ? Math.max((await headNumber()) - lagBlocks, 0) : Number.MAX_SAFE_INTEGER;
    const answers = await post(lagBlocks > 0 ? batch.map((call) => asOfBlock(call, asOf)) : batch);
    return batch.map((call, index): RpcAnswer & { id: unknown; jsonrpc: '2.0' } => {
      const { result, error } = answers[index]!;
      const given: RpcAnswer = error ? { error } : { result };
      const seen = lagBlocks > 0 ? hideNewer(call, given, asOf) : given;
      return { jsonrpc: '2.0', id: call.id, ...(answer ? answer(call.method, call.params ?? [], seen) : seen) };
    });
  }

  async function headNumber(): Promise<number> {
    const [answer] = await post([{ jsonrpc: '2.0', id: 0, method: 'eth_blockNumber', params: [] }]);
    return Number(answer!.result);
  }

  /** @returns one answer a call, in the order of the calls */
  async function post(batch: readonly RpcCall[]): Promise<{ result?: unknown; error?: RpcFailure }[]> {
    const numbered = batch.map((call, id) => ({ ...call, id }));
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(target, { method: 'POST', headers, body: JSON.stringify(numbered) });
    const answers = (await reply.json()) as { id: number; result?: unknown; error?: RpcFailure }[];
    return answers.toSorted((a, b) => a.id - b.id);
  }
}

type RpcFailure = Extract<RpcAnswer, { error: unknown }>['error'];

const random = (faults: RpcFaults) => (faults.random ?? Math.random)();

function drawMs(faults: RpcFaults): number {
  const { delayMs = 0 } = faults;
  if (typeof delayMs === 'number') return delayMs;
  const [min, max] = delayMs;
  return min + random(faults) * (max - min);
}

function refuse(response: ServerResponse, { status, retryAfter }: RpcFaults): void {
  response.statusCode = status!;
  if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter);
  response.end(status === 429 ? 'Too Many Requests' : 'Service Unavailable');
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
