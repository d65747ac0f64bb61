import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../../dev/ports.ts';
import { createHttpGuard, type HttpGuardOptions } from '../../shared/http-guard.ts';
import { OutgoingFailure } from '../../shared/outgoing-failure.ts';
import { certificate } from '../support/certificate.ts';
import { startNameServer } from '../support/name-server.ts';
import { startRawTarget, startTarget } from '../support/target.ts';

const stops: (() => Promise<void>)[] = [];
/** For what is not about it. */
const patientMs = 30_000;
const timeoutMs = 600;
const mebibyte = 1024 * 1024;

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function target(listener: RequestListener, options?: { tls?: boolean }) {
  const started = await startTarget(listener, options);
  stops.push(started.stop);
  return started;
}

async function rawTarget(onConnection: (socket: Socket) => void) {
  const started = await startRawTarget(onConnection);
  stops.push(started.stop);
  return started;
}

async function nameServer(addressesOf: (name: string) => readonly string[] | undefined) {
  const started = await startNameServer(addressesOf);
  stops.push(started.stop);
  return started;
}

const ask = (
  url: string,
  { method = 'GET', headers = {}, body, ...options }: Partial<HttpGuardOptions> & Record<string, unknown> = {},
) =>
  createHttpGuard({ allowLoopback: true, timeoutMs: patientMs, ...options })({
    url: new URL(url).href,
    method: method as string,
    headers: headers as Record<string, string>,
    body: body as string | undefined,
  });

/** Why no answer came. */
async function failure(url: string, options: Partial<HttpGuardOptions> = {}): Promise<string> {
  try {
    await ask(url, options);
  } catch (error) {
    if (error instanceof OutgoingFailure) return error.reason;
    throw error;
  }
  return 'it answered';
}

const tlsUrl = (url: string, host: string) => url.replace('127.0.0.1', host).replace('http:', 'https:');

describe('a request through the guard', () => {
  it('arrives as it was meant, and its answer comes back as it was sent', async () => {
    const { url } = await target(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method, url: path, headers } = request;
      response.writeHead(402, { 'X-Price': ['1', '2'] });
      response.end(JSON.stringify({ method, path, tone: headers['x-tone'], body: Buffer.concat(chunks).toString() }));
    });
    const answer = await ask(`${url}/a%2Fb?c=d`, { method: 'POST', headers: { 'x-tone': 'low' }, body: '{"ü":1}' });
    expect(answer.status).toBe(402);
    expect(answer.headers['x-price']).toEqual(['1', '2']);
    expect(JSON.parse(answer.body.toString())).toEqual({
      method: 'POST',
      path: '/a%2Fb?c=d',
      tone: 'low',
      body: '{"ü":1}',
    });
  });

  it('follows no redirect', async () => {
    const elsewhere = await target((_request, response) => response.end('secret'));
    const { url } = await target((_request, response) => response.writeHead(307, { location: elsewhere.url }).end());
    expect(await ask(url)).toMatchObject({ status: 307 });
    expect(elsewhere.connections()).toBe(0);
  });

  it('unpacks nothing', async () => {
    const packed = gzipSync(Buffer.alloc(50 * mebibyte));
    const { url } = await target((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed),
    );
    expect((await ask(url)).body.equals(packed)).toBe(true);
  });

  it('leaves no connection behind', async () => {
    const closed: Promise<unknown>[] = [];
    const { url } = await target((request, response) => {
      closed.push(once(request.socket, 'close'));
      response.end('done');
    });
    await ask(url);
    expect(closed).toHaveLength(1);
    // The server would keep it for ever.
    await Promise.all(closed);
  });
});

/** What the server gets rid of, until nobody takes it any more. */
async function pour(response: ServerResponse, { bytes }: { bytes: number }): Promise<number> {
  const chunk = Buffer.alloc(64 * 1024);
  let poured = 0;
  const source = Readable.from(
    (function* () {
      for (; poured < bytes; poured += chunk.length) yield chunk;
    })(),
  );
  await pipeline(source, response).catch(() => {});
  return poured;
}

describe('the limits of an answer', () => {
  it('are a mebibyte of body, to the byte', async () => {
    const { url } = await target((request, response) => response.end(Buffer.alloc(Number(request.url?.slice(1)))));
    expect((await ask(`${url}/${mebibyte}`)).body).toHaveLength(mebibyte);
    expect(await failure(`${url}/${mebibyte + 1}`)).toBe('response_too_large');
  });

  it.each([
    ['with its length', { 'content-length': String(100 * mebibyte) }],
    ['without', {}],
  ])('are not a body of 100 MB, %s: it is cut off', async (_name, headers) => {
    let poured: Promise<number> | undefined;
    const { url } = await target((_request, response) => {
      response.writeHead(402, headers);
      poured = pour(response, { bytes: 100 * mebibyte });
    });
    expect(await failure(url)).toBe('response_too_large');
    expect(await poured).toBeLessThan(20 * mebibyte);
  });

  it.each([
    ['one of 1 MB', (socket: Socket) => socket.write(`X-Big: ${'a'.repeat(mebibyte)}\r\n\r\n`)],
    ['one of 17 KB', (socket: Socket) => socket.write(`X-Big: ${'a'.repeat(17 * 1024)}\r\n\r\n`)],
    [
      'very many',
      (socket: Socket) => socket.write(`${Array.from({ length: 5_000 }, (_, i) => `X-${i}: a`).join('\r\n')}\r\n\r\n`),
    ],
  ])('are 16 KiB of headers; not %s', async (_name, send) => {
    const { url } = await rawTarget((socket) => {
      socket.write('HTTP/1.1 402 Payment Required\r\n');
      send(socket);
    });
    expect(await failure(url)).toBe('response_too_large');
  });

  it('let a header of 15 KB through', async () => {
    const { url } = await target((_request, response) =>
      response.writeHead(402, { 'x-big': 'a'.repeat(15 * 1024) }).end(),
    );
    expect((await ask(url)).headers['x-big']).toHaveLength(15 * 1024);
  });

  const drip = async (socket: Socket, text: string) => {
    for (const char of text.repeat(1_000)) {
      if (socket.destroyed) return;
      socket.write(char);
      await delay(20);
    }
  };
  it.each<[string, (socket: Socket) => unknown]>([
    ['silence', () => {}],
    ['a head that drips', (socket) => drip(socket, 'HTTP/1.1 200 OK')],
    [
      'headers that drip',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        return drip(socket, 'X: y\r\n');
      },
    ],
    [
      'a body that drips',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n');
        return drip(socket, 'a');
      },
    ],
    [
      'chunks that drip',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        return drip(socket, '1\r\na\r\n');
      },
    ],
    ['hints without end', (socket) => drip(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['silence before TLS', () => {}],
  ])('are one time for all: not %s', async (name, onConnection) => {
    const { url } = await rawTarget(onConnection);
    const begun = performance.now();
    expect(await failure(name.endsWith('TLS') ? tlsUrl(url, '127.0.0.1') : url, { timeoutMs })).toBe('timeout');
    expect(performance.now() - begun).toBeLessThan(timeoutMs + 15_000);
  });
});

describe('what goes wrong', () => {
  it.each<[string, (socket: Socket) => unknown, string]>([
    ['a connection that is closed at once', (socket) => socket.destroy(), 'connection_reset'],
    ['one that is reset', (socket) => socket.resetAndDestroy(), 'connection_reset'],
    [
      'one that is closed in the middle',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'),
      'connection_reset',
    ],
    ['no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'), 'invalid_response'],
    [
      'no number as the length',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n'),
      'invalid_response',
    ],
  ])('is named: %s', async (_name, onConnection, reason) => {
    const { url } = await rawTarget((socket) => socket.once('data', () => onConnection(socket)));
    expect(await failure(url)).toBe(reason);
  });

  it('is named: nobody listens', async () => {
    expect(await failure(`http://127.0.0.1:${await freePort()}/`)).toBe('connection_refused');
  });

  it('is named: TLS that cannot be trusted, and none at all', async () => {
    const secure = await target((_request, response) => response.end('ok'), { tls: true });
    expect(await failure(secure.url)).toBe('tls_error');
    const trusting = { extraCa: certificate.cert };
    expect(await ask(secure.url, trusting)).toMatchObject({ status: 200 });
    expect(await failure(tlsUrl(secure.url, 'localhost'), trusting)).toBe('tls_error');
    const plain = await target((_request, response) => response.end('ok'));
    expect(await failure(tlsUrl(plain.url, '127.0.0.1'), trusting)).toBe('tls_error');
  });
});

describe('an address that is not public', () => {
  const loopbacks = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '017700000001',
    '127.8.9.10',
    '[::1]',
    'localhost',
  ];
  it.each(loopbacks)('is refused: loopback as %s, unless it was allowed', async (host) => {
    const local = await target((_request, response) => response.end());
    for (const scheme of ['http', 'https']) {
      const url = local.url.replace('http', scheme).replace('127.0.0.1', host);
      expect(await failure(url, { allowLoopback: false })).toBe('blocked_address');
    }
    expect(local.connections()).toBe(0);
  });

  it.each([
    '0.0.0.0',
    '169.254.169.254',
    '10.0.0.1',
    '192.168.1.1',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:a9fe:a9fe]',
    '[64:ff9b::7f00:1]',
    '[fd00:ec2::254]',
    '[fe80::1]',
  ])('is refused also where loopback is allowed: %s', async (host) => {
    expect(await failure(`https://${host}/latest/meta-data`)).toBe('blocked_address');
    expect(await failure(`http://${host}/latest/meta-data`)).toBe('blocked_address');
  });

  it.each<[string, string[]]>([
    ['loopback', ['127.0.0.1']],
    ['loopback of IPv6', ['::1']],
    ['the metadata of a cloud', ['169.254.169.254']],
    ['IPv4 in IPv6', ['::ffff:127.0.0.1']],
    ['one of several', ['1.1.1.1', '10.0.0.1']],
    ['one of the other kind', ['1.1.1.1', 'fd00::1']],
  ])('is refused behind a name, also where loopback is allowed: %s', async (_name, addresses) => {
    const local = await target((_request, response) => response.end());
    const names = await nameServer(() => addresses);
    const url = tlsUrl(local.url, 'api.example.com');
    expect(await failure(url, { nameServers: [names.address] })).toBe('blocked_address');
    expect(local.connections()).toBe(0);
  });

  it('is refused where a name leads to it the second time only: each request asks anew, once', async () => {
    const local = await target((_request, response) => response.end());
    let addresses: string[] = [];
    const names = await nameServer(() => addresses);
    const guard = createHttpGuard({ allowLoopback: true, timeoutMs: patientMs, nameServers: [names.address] });
    const request = { url: tlsUrl(local.url, 'api.example.com'), method: 'GET', headers: {} };
    await expect(guard(request)).rejects.toMatchObject({ reason: 'dns_error' });
    addresses = ['127.0.0.1'];
    await expect(guard(request)).rejects.toMatchObject({ reason: 'blocked_address' });
    expect(names.asked).toHaveLength(4);
    expect(local.connections()).toBe(0);
  });

  it('is not told to whoever asks', async () => {
    const names = await nameServer(() => ['10.11.12.13']);
    await expect(ask('https://intranet.example.com/', { nameServers: [names.address] })).rejects.toThrow(
      /^its name leads to an address that is not public$/,
    );
  });
});

describe('a name', () => {
  it('that leads nowhere is told so', async () => {
    const names = await nameServer(() => []);
    expect(await failure('https://api.example.com/', { nameServers: [names.address] })).toBe('dns_error');
  });

  it('that nobody answers for takes no longer than the rest', async () => {
    const names = await nameServer(() => undefined);
    const begun = performance.now();
    expect(await failure('https://api.example.com/', { nameServers: [names.address], timeoutMs })).toBe('timeout');
    expect(performance.now() - begun).toBeLessThan(timeoutMs + 15_000);
  });

  it('is not asked for by http, which anybody on the way could answer', async () => {
    expect(await failure('http://api.example.com/')).toBe('blocked_address');
  });
});
