import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';

/** Answers as a client reads them off one connection. */
interface Heard {
  readonly answers: { status: number; headers: Headers; text: string }[];
  /** Whether the connection was reset, and not closed. */
  readonly wasReset: boolean;
}

describe('the edge, towards clients that are not as they should be', () => {
  let api: TestApi;
  let account: TestAccount;
  let port: number;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
    port = Number(new URL(api.url).port);
  });
  afterAll(() => api?.stop());

  /** Sends what it is given, piece by piece, and hears whatever comes until the connection is closed. */
  const talk = async (...pieces: (string | Buffer | ((socket: Socket) => Promise<void>))[]): Promise<Heard> => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const parts: Buffer[] = [];
    let wasReset = false;
    socket.on('data', (part) => parts.push(part));
    socket.on('error', () => {
      wasReset = true;
    });
    const closed = once(socket, 'close').catch(() => {});
    socket.once('end', () => socket.end());
    await once(socket, 'connect');
    for (const piece of pieces) {
      if (typeof piece === 'function') await piece(socket);
      else if (socket.writable && !socket.write(piece))
        await Promise.race([once(socket, 'drain'), closed]).catch(() => {});
    }
    await closed;
    return { answers: readAnswers(Buffer.concat(parts)), wasReset };
  };
  const head = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`;
  const post = (...lines: string[]) =>
    [
      'POST /api/v1/agents HTTP/1.1',
      'Host: x',
      `X-API-Key: ${account.key}`,
      'Content-Type: application/json',
      ...lines,
    ] as const;
  const alive = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
  const lastAlive = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

  const expectRefusal = ({ answers, wasReset }: Heard, status: number, before: number[] = []) => {
    expect(answers.map((answer) => answer.status)).toEqual([...before, status]);
    const { headers, text } = answers.at(-1)!;
    expect(JSON.parse(text)).toMatchObject({
      ...{ code: 'invalid_request', type: 'invalid_request_error', message: expect.any(String) },
      request_id: headers.get('x-request-id'),
    });
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('connection')).toBe('close');
    expect(headers.get('x-powered-by')).toBeNull();
    expect(text).not.toMatch(/HPE_|ERR_|\bat /);
    expect(wasReset).toBe(false);
  };

  it.each<[string, number, () => (string | Buffer)[]]>([
    ['a word', 400, () => ['nonsense\r\n\r\n']],
    ['the greeting of TLS', 400, () => [Buffer.from('16030100a5010000a10303', 'hex'), '\r\n\r\n']],
    ['the greeting of HTTP/2', 400, () => ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']],
    ['a method that there is not', 400, () => [head('FETCH / HTTP/1.1', 'Host: x')]],
    ['a version that there is not', 400, () => [head('GET / HTTP/9.9', 'Host: x')]],
    ['CONNECT', 400, () => [head('CONNECT example.com:443 HTTP/1.1', 'Host: example.com:443')]],
    ['no Host', 400, () => [head('GET /healthz HTTP/1.1')]],
    ['two Hosts', 400, () => [head('GET /healthz HTTP/1.1', 'Host: a', 'Host: b')]],
    ['a space before a colon', 400, () => [head('GET /healthz HTTP/1.1', 'Host : x')]],
    ['a folded header', 400, () => [head('GET /healthz HTTP/1.1', 'Host: x', 'A: b', ' c')]],
    ['NUL in a header', 400, () => [head('GET /healthz HTTP/1.1', 'Host: x', 'A: b\0c')]],
    ['a lone CR in a header', 400, () => [head('GET /healthz HTTP/1.1', 'Host: x', 'A: b\rX: c')]],
    ['a control character in the path', 400, () => [head('GET /\x01 HTTP/1.1', 'Host: x')]],
    ['headers beyond 16 KiB', 431, () => [head('GET / HTTP/1.1', 'Host: x', `A: ${'x'.repeat(20_000)}`)]],
    ['headers of 2 MB', 431, () => [head('GET / HTTP/1.1', 'Host: x', `A: ${'x'.repeat(2_000_000)}`)]],
    ['a path beyond 16 KiB', 431, () => [head(`GET /${'x'.repeat(20_000)} HTTP/1.1`, 'Host: x')]],
    ['a query of 2 MB', 431, () => [head(`GET /api/v1/agents?x=${'x'.repeat(2_000_000)} HTTP/1.1`, 'Host: x')]],
    [
      '101 headers',
      431,
      () => [head('GET /healthz HTTP/1.1', 'Host: x', ...Array.from({ length: 100 }, (_, n) => `A${n}: b`))],
    ],
    [
      '2,000 headers with the key at their end',
      431,
      () => [
        head(
          'GET /api/v1/agents HTTP/1.1',
          'Host: x',
          ...Array.from({ length: 2_000 }, () => 'A: b'),
          `X-API-Key: ${account.key}`,
        ),
      ],
    ],
    ['two lengths', 400, () => [head(...post('Content-Length: 2', 'Content-Length: 3')), '{}x']],
    ['two equal lengths', 400, () => [head(...post('Content-Length: 2', 'Content-Length: 2')), '{}']],
    ['a list of lengths', 400, () => [head(...post('Content-Length: 2, 2')), '{}']],
    ['a signed length', 400, () => [head(...post('Content-Length: +2')), '{}']],
    ['a negative length', 400, () => [head(...post('Content-Length: -2')), '{}']],
    ['a hexadecimal length', 400, () => [head(...post('Content-Length: 0x2')), '{}']],
    ['a length past all bounds', 400, () => [head(...post(`Content-Length: ${'9'.repeat(40)}`)), '{}']],
    ['a length and chunks', 400, () => [head(...post('Content-Length: 2', 'Transfer-Encoding: chunked')), '0\r\n\r\n']],
    ['chunks and a length', 400, () => [head(...post('Transfer-Encoding: chunked', 'Content-Length: 2')), '0\r\n\r\n']],
    ['chunks that are not last', 400, () => [head(...post('Transfer-Encoding: chunked, identity')), '0\r\n\r\n']],
    ['an unknown transfer encoding', 400, () => [head(...post('Transfer-Encoding: xchunked')), '0\r\n\r\n']],
    ['a chunk of no length', 400, () => [head(...post('Transfer-Encoding: chunked')), 'x\r\n{}\r\n0\r\n\r\n']],
    [
      'a chunk longer than it says',
      400,
      () => [head(...post('Transfer-Encoding: chunked')), '1\r\n{}{}{}\r\n0\r\n\r\n'],
    ],
    [
      'a chunk past all bounds',
      400,
      () => [head(...post('Transfer-Encoding: chunked')), `${'f'.repeat(40)}\r\n{}\r\n0\r\n\r\n`],
    ],
    [
      'chunk extensions of 1 MB',
      413,
      () => [head(...post('Transfer-Encoding: chunked')), `1;a=${'x'.repeat(1_000_000)}\r\n{\r\n`],
    ],
  ])('are refused %s with %i and the error object, as the last answer', async (_what, status, pieces) => {
    expectRefusal(await talk(...pieces()), status);
  });

  it('answer what was asked before garbage on the same connection first', async () => {
    expectRefusal(await talk(alive, alive, 'garbage\r\n\r\n', alive), 400, [200, 200]);
    expectRefusal(await talk(`${alive}${alive}garbage\r\n\r\n${alive}`), 400, [200, 200]);
    const asked = head('GET /api/v1/agents HTTP/1.1', 'Host: x', `X-API-Key: ${account.key}`);
    expectRefusal(await talk(`${asked}garbage\r\n\r\n`), 400, [200]);
  });

  it('read what follows a body as the next request, and no byte of it as part of another', async () => {
    const body = JSON.stringify({ agent_name: 'one', chain: 'eip155:31337' });
    const whole = head(...post(`Content-Length: ${body.length}`)) + body;
    expect((await talk(whole + alive + lastAlive)).answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    // The length is shorter than what is sent: the rest is a request of its own, and none.
    expectRefusal(await talk(`${head(...post('Content-Length: 2'))}{}GARBAGE\r\n\r\n`), 400, [400]);
  });

  it.each([
    ['by its length', (length: number) => [`Content-Length: ${length}`], (part: string) => part],
    ['in chunks', () => ['Transfer-Encoding: chunked'], (part: string) => `${part.length.toString(16)}\r\n${part}\r\n`],
  ])('are refused a body of 64 MB, told %s, before it has come, and can read why', async (_how, declare, frame) => {
    const part = frame('x'.repeat(64 * 1024));
    let sent = 0;
    const heard = await talk(head(...post(...declare(64 * 1024 * 1024))), async (socket) => {
      const stopped = once(socket, 'end').then(
        () => true,
        () => true,
      );
      for (let count = 0; count < 1_024 && socket.writable; count += 1) {
        if (
          !socket.write(part) &&
          (await Promise.race([
            stopped,
            once(socket, 'drain').then(
              () => false,
              () => true,
            ),
          ]))
        )
          break;
        sent += 1;
      }
    });
    expectRefusal(heard, 400);
    expect(heard.answers[0]!.text).toContain('larger than 262144 bytes');
    expect(sent).toBeLessThan(1_024);
  });

  it('are told at once that a credential is no good, whatever they were about to send', async () => {
    const { answers } = await talk(
      head(
        'POST /api/v1/agents HTTP/1.1',
        'Host: x',
        'X-API-Key: no',
        'Content-Type: application/json',
        'Content-Length: 1000000',
        'Connection: close',
      ),
      'x'.repeat(300_000),
    );
    expect(answers.map(({ status }) => status)).toEqual([401]);
  });

  it('are waited for 10 s when headers trickle and 30 s when a body does, while others are served', async () => {
    const trickle = (...start: string[]) => {
      const beganMs = performance.now();
      const heard = talk(...start, async (socket) => {
        while (socket.writable && !socket.readableEnded) {
          socket.write('x');
          await delay(200);
        }
      });
      return heard.then((all) => ({ ...all, tookMs: performance.now() - beganMs }));
    };
    const slow = [
      trickle('GET /healthz HTTP/1.1\r\nHost: x\r\nA: '),
      trickle(`${alive}GET /healthz HTTP/1.1\r\nHost: x\r\nA: `),
      trickle(head(...post('Content-Length: 100000')), '{"agent_name":"'),
      trickle(head(...post('Transfer-Encoding: chunked')), '1fff0\r\n{"agent_name":"'),
      trickle(head('POST /api/v1/agents HTTP/1.1', 'Host: x', 'Content-Length: 100000'), 'x'),
    ] as const;
    const silent = talk('GET /healthz HTTP/1.1\r\nHost: x\r\n');
    await Promise.all(
      Array.from({ length: 50 }, async () => expect((await account.call('GET', '/api/v1/agents')).status).toBe(200)),
    );
    const [headers, second, body, chunks, refused] = await Promise.all(slow);
    expectRefusal(headers, 408);
    expectRefusal(second, 408, [200]);
    expectRefusal(await silent, 408);
    for (const each of [headers, second]) {
      expect(each.tookMs).toBeGreaterThan(9_000);
      expect(each.tookMs).toBeLessThan(60_000);
    }
    expectRefusal(body, 408);
    expectRefusal(chunks, 408);
    // It has its answer already; the connection goes without another one.
    expect(refused.answers.map(({ status }) => status)).toEqual([401]);
    for (const each of [body, chunks, refused]) {
      expect(each.tookMs).toBeGreaterThan(29_000);
      expect(each.tookMs).toBeLessThan(100_000);
    }
  }, 240_000);

  it.each([
    [
      'whole paths of another host',
      () => head('GET http://evil.example/healthz HTTP/1.1', 'Host: x', 'Connection: close'),
      200,
    ],
    ['a star', () => head('OPTIONS * HTTP/1.1', 'Host: x', 'Connection: close'), 404],
    [
      'an expectation that nobody knows',
      () => head('GET /healthz HTTP/1.1', 'Host: x', 'Expect: magic', 'Connection: close'),
      200,
    ],
    [
      'an upgrade',
      () => head('GET /healthz HTTP/1.1', 'Host: x', 'Connection: close, Upgrade', 'Upgrade: websocket'),
      200,
    ],
    ['TRACE', () => head('TRACE /healthz HTTP/1.1', 'Host: x', 'Connection: close', 'Cookie: secret'), 404],
    ['HTTP/1.0 without a Host', () => head('GET /healthz HTTP/1.0'), 200],
    [
      '100 headers',
      () => head('GET /healthz HTTP/1.1', 'Host: x', 'Connection: close', ...Array.from({ length: 98 }, () => 'A: b')),
      200,
    ],
    ['a broken path', () => head('GET /%zz/%ff HTTP/1.1', 'Host: x', 'Connection: close'), 404],
    ['a path of slashes', () => head(`GET ${'/'.repeat(8_000)} HTTP/1.1`, 'Host: x', 'Connection: close'), 404],
    ['climbing paths', () => head('GET /docs/../../../etc/passwd HTTP/1.1', 'Host: x', 'Connection: close'), 404],
    ['a client that has closed its side', () => 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 200],
  ])('%s are nothing special', async (_what, sent, status) => {
    const { answers, wasReset } = await talk(sent(), async (socket) => {
      socket.end();
    });
    expect(answers.map((answer) => answer.status)).toEqual([status]);
    expect(answers[0]!.text).not.toContain('secret');
    expect(wasReset).toBe(false);
  });

  it('leave nothing behind: it serves as before', async () => {
    expect((await account.call('GET', '/api/v1/agents')).status).toBe(200);
  });
});

/** Reads answers by their lengths, as a client has to. */
function readAnswers(bytes: Buffer): Heard['answers'] {
  const answers: Heard['answers'] = [];
  let rest = bytes.toString('latin1');
  while (rest !== '') {
    const split = rest.indexOf('\r\n\r\n');
    if (split < 0) throw new Error(`No answer: ${JSON.stringify(rest.slice(0, 200))}`);
    const [first = '', ...lines] = rest.slice(0, split).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    if (!status) throw new Error(`No answer: ${JSON.stringify(first)}`);
    const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s).slice(0, 2) as [string, string]));
    const length = Number(headers.get('content-length') ?? 0);
    answers.push({ status, headers, text: rest.slice(split + 4, split + 4 + length) });
    rest = rest.slice(split + 4 + length);
  }
  return answers;
}
