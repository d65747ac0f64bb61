import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { unavailableAfter } from '../../../shared/chain/endpoints/agreement.ts';
import { endpointTimeoutMs, WrongChain } from '../../../shared/chain/endpoints/endpoint.ts';
import { createEndpointPool } from '../../../shared/chain/endpoints/endpoint-pool.ts';
import { createHttpDriver } from '../../../shared/chain/endpoints/http.ts';
import { HttpFailure, httpJudge } from '../../../shared/chain/endpoints/http-failure.ts';
import type { Logger } from '../../../shared/log.ts';

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const json = { 'content-type': 'application/json' };

describe('an endpoint that speaks HTTP', () => {
  let server: Server;
  let origin: string;
  let requests: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[];
  let handle: Handler;
  beforeEach(async () => {
    requests = [];
    handle = (_, response) => response.writeHead(200, json).end('{"is":"there"}');
    server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts).toString();
      requests.push({ method: request.method!, url: request.url!, headers: request.headers, body });
      handle(request, response, body);
    });
    await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1' }, resolve));
    origin = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const driver = (url = `http://${origin}`) => createHttpDriver({ url, verify: async () => {} });
  const answers = (status: number, text = '', headers: Record<string, string> = {}) => {
    handle = (_, response) => response.writeHead(status, headers).end(text);
  };
  const failure = async (url?: string): Promise<HttpFailure> => {
    const error = await driver(url)
      .send({ path: '/thing' })
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(HttpFailure);
    return error as HttpFailure;
  };

  it('asks below its own path, with its own query, and posts text and JSON', async () => {
    const { send } = driver(`http://${origin}/api/?network=nile`);
    await send({ path: '/wallet/get?visible=true' });
    await send({ path: '/tx', body: '0200ff' });
    await send({ path: '/tx', body: { raw: 'ff' } });
    expect(requests).toMatchObject([
      { method: 'GET', url: '/api/wallet/get?network=nile&visible=true', body: '' },
      { method: 'POST', url: '/api/tx?network=nile', body: '0200ff', headers: { 'content-type': 'text/plain' } },
      { method: 'POST', body: '{"raw":"ff"}', headers: { 'content-type': 'application/json' } },
    ]);
  });

  it.each<[string, string, string, unknown]>([
    ['JSON', '{"a":[1]}', 'application/json', { a: [1] }],
    ['JSON that is called text', '{"a":[1]}', 'text/plain', { a: [1] }],
    ['a number', '812345', 'text/plain', 812_345],
    ['a hash', 'ab'.repeat(32), 'text/plain', 'ab'.repeat(32)],
    ['a hash of digits only', '12'.repeat(32), 'text/plain', '12'.repeat(32)],
    ['words', 'not yet', 'text/plain', 'not yet'],
    ['nothing', '', 'text/plain', ''],
  ])('reads %s', async (_, text, type, value) => {
    answers(200, text, { 'content-type': type });
    expect(await driver().send({ path: '/' })).toEqual(value);
  });

  it('has nothing where there is nothing', async () => {
    answers(404, 'Transaction not found');
    expect(await driver().send({ path: '/' })).toBeNull();
  });

  it.each<[string, number, Record<string, string>, string, number | undefined]>([
    ['429', 429, {}, '', undefined],
    ['429 with Retry-After', 429, { 'retry-after': '7' }, '', 7_000],
    ['503 with Retry-After', 503, { 'retry-after': '7' }, '', 7_000],
    ['Retry-After without end', 429, { 'retry-after': '999999' }, '', 300_000],
    ['403 of TronGrid', 403, {}, 'exceeds the frequency limit(3), and the query server is suspended for 5s', 5_000],
  ])('%s: it limits us', async (_, status, headers, text, forMs) => {
    answers(status, text, headers);
    expect(httpJudge.failureOf(await failure())).toEqual({ kind: 'limited', forMs });
  });

  it.each<[string, Handler]>([
    ['HTTP 500', (_, response) => response.writeHead(500).end('oops')],
    ['HTTP 503', (_, response) => response.writeHead(503).end()],
    ['HTTP 401', (_, response) => response.writeHead(401).end()],
    ['HTTP 403', (_, response) => response.writeHead(403).end('go away')],
    ['a redirect', (_, response) => response.writeHead(302, { location: 'http://elsewhere.example/' }).end()],
    ['a web page', (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ['half a JSON', (_, response) => response.writeHead(200, json).end('{"is":"the')],
    ['a reset connection', (request) => request.socket.resetAndDestroy()],
    [
      'an answer that is cut off',
      (_, response) => {
        response.writeHead(200, { ...json, 'content-length': '99' });
        response.write('{"is"', () => response.socket?.destroy());
      },
    ],
  ])('%s: it is down', async (_, handler) => {
    handle = handler;
    const error = await failure();
    expect(httpJudge.failureOf(error)).toEqual({ kind: 'down' });
    expect(httpJudge.isDecisive(error)).toBe(false);
  });

  it('is down when nobody listens', async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen({ port: 0, host: '127.0.0.1' }, resolve));
    const { port } = gone.address() as AddressInfo;
    await new Promise((resolve) => gone.close(resolve));
    const error = await failure(`http://127.0.0.1:${port}/v1/secret-key`);
    expect(httpJudge.failureOf(error)).toEqual({ kind: 'down' });
    expect(httpJudge.asUnavailable(error).message).toBe(
      'No endpoint of the chain could be reached: The request failed (ECONNREFUSED).',
    );
  });

  it('is down when it takes too long', async () => {
    handle = () => {};
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => {
      const stop = new AbortController();
      setTimeout(() => stop.abort(new DOMException('', 'TimeoutError')), 10);
      return stop.signal;
    });
    const error = await failure();
    expect(timeout).toHaveBeenCalledWith(endpointTimeoutMs);
    expect(httpJudge.failureOf(error)).toEqual({ kind: 'down' });
    expect(error.message).toBe('No answer within 4 s.');
  });

  it('asks once more when a connection was closed at the other end', async () => {
    let asked = 0;
    handle = (request, response) => {
      asked += 1;
      if (asked === 1) request.socket.resetAndDestroy();
      else response.writeHead(200, json).end('7');
    };
    expect(await driver().send({ path: '/' })).toBe(7);
  });

  it.each([400, 422])('HTTP %i is about the request: it decides', async (status) => {
    answers(status, 'sendrawtransaction RPC error: bad-txns-inputs-missingorspent');
    const error = await failure();
    expect(httpJudge.failureOf(error)).toEqual({ kind: 'answer' });
    expect(httpJudge.isDecisive(error)).toBe(true);
    expect(httpJudge.mostTelling([new HttpFailure({ text: 'gone' }), error])).toBe(error);
    expect(httpJudge.asUnavailable(error).answer).toEqual({
      code: status,
      text: 'sendrawtransaction RPC error: bad-txns-inputs-missingorspent',
      data: undefined,
    });
  });

  it('lets few requests travel at once, and all of them in the end', async () => {
    let [atOnce, most] = [0, 0];
    handle = (_, response) => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      setImmediate(() => {
        atOnce -= 1;
        response.writeHead(200, json).end('1');
      });
    };
    const { send } = driver();
    const all = await Promise.all(Array.from({ length: 50 }, () => send({ path: '/' })));
    expect(all).toHaveLength(50);
    expect(most).toBeLessThanOrEqual(8);
  });

  describe('with credentials in its address', () => {
    const secrets = ['user-name', 'pass-word', 'path-secret', 'query-secret'];
    const secretUrl = () => `http://user-name:pass-word@${origin}/v3/path-secret?key=query-secret`;
    const expectNone = (text: string) => {
      for (const secret of [...secrets, Buffer.from('user-name:pass-word').toString('base64')])
        expect(text).not.toContain(secret);
    };

    it('shows them to the endpoint, as Basic or as the family wants', async () => {
      await driver(secretUrl()).send({ path: '/a' });
      const authorize = ({ username }: { username: string }) => ({ 'x-key': username });
      await createHttpDriver({ url: secretUrl(), verify: async () => {}, authorize }).send({ path: '/a' });
      expect(requests[0]!.headers.authorization).toBe(`Basic ${btoa('user-name:pass-word')}`);
      expect(requests[1]!.headers).toMatchObject({ 'x-key': 'user-name' });
      expect(requests[1]!.headers.authorization).toBeUndefined();
      expect(requests[1]!.url).toBe('/v3/path-secret/a?key=query-secret');
    });

    it.each<[string, Handler]>([
      [
        'one that repeats them',
        (_, response) => response.writeHead(403).end(`Keys ${secrets.join()} at ${secretUrl()}`),
      ],
      ['a reset connection', (request) => request.socket.resetAndDestroy()],
      ['no JSON', (_, response) => response.writeHead(200, json).end(secretUrl())],
      ['a redirect', (_, response) => response.writeHead(301, { location: secretUrl() }).end()],
    ])('names them in no error and in no log: %s', async (_, handler) => {
      handle = handler;
      const lines: string[] = [];
      const write = (fields: unknown, text: string) => lines.push(JSON.stringify([fields, text]));
      const endpoints = createEndpointPool({
        urls: [secretUrl()],
        connect: driver,
        judge: httpJudge,
        logger: { info: write, warn: write, error: write } as unknown as Logger,
      });
      const error = await endpoints.request({ path: '/' }).catch((caught: unknown) => caught as Error);
      const heard = unavailableAfter(endpoints, await endpoints.askAll({ calls: [{ path: '/' }] }));
      expect(lines).toHaveLength(1);
      for (const text of [...lines, String(error), JSON.stringify(error), (error as Error).stack!, String(heard)])
        expectNone(text);
    });
  });

  it('is not used when it belongs to another chain', async () => {
    const verify = async (send: (call: { path: string }) => Promise<unknown>) => {
      if ((await send({ path: '/genesis' })) !== 'right') throw new WrongChain('An endpoint serves chain "wrong".');
    };
    handle = (request, response) => response.writeHead(200, json).end(request.url === '/genesis' ? '"wrong"' : '5');
    const connect = (url: string) => createHttpDriver({ url, verify });
    const endpoints = createEndpointPool({ urls: [`http://${origin}`], connect, judge: httpJudge });
    await expect(endpoints.request({ path: '/' })).rejects.toThrow('An endpoint serves chain "wrong".');
  });
});
