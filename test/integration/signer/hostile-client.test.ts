import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BODY_BYTES_MAX, REQUEST_HEADER, signRequest } from '../../../signer/wire.ts';
import { type HostedSigners, hostSigners } from '../../support/hosted-signers.ts';

/** Longer than a signer waits for a header or a whole request, on a busy machine too. */
const PATIENCE_MS = 60_000;
/** As many connections as a signer keeps. */
const CONNECTIONS_MAX = 256;

let signers: HostedSigners;
const sockets: Socket[] = [];

beforeAll(async () => {
  signers = await hostSigners();
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await signers?.stop();
});

/** Connects to signer 1 and says only this. @returns how long it was kept, and what was answered */
async function say(text: string): Promise<{ answer: string; keptMs: number }> {
  const socket = connect(Number(new URL(signers.signer(1).url).port), '127.0.0.1');
  sockets.push(socket);
  const closed = Promise.withResolvers<void>();
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('error', () => undefined).once('close', () => closed.resolve());
  const sinceMs = performance.now();
  socket.write(text);
  await closed.promise;
  return { answer, keptMs: performance.now() - sinceMs };
}

async function signedHead(p: { length: number; body: Buffer }): Promise<string> {
  const { token } = await signRequest(signers.coordinatorIdentity.signingKey, {
    to: 1,
    path: '/v1/abort',
    session: '0'.repeat(64),
    body: p.body,
    now: new Date(),
  });
  return `POST /v1/abort HTTP/1.1\r\nhost: x\r\n${REQUEST_HEADER}: ${token}\r\ncontent-length: ${p.length}\r\n\r\n`;
}

const abort = () =>
  signers.transport.call(signers.peer(1), {
    path: '/v1/abort',
    session: '0'.repeat(64),
    body: {},
    timeoutMs: PATIENCE_MS,
  });

describe.concurrent('a client that sends too slowly', () => {
  it.each([
    ['nothing', () => ''],
    ['half of a header', () => 'POST /v1/abort HTTP/1.1\r\nhost: x\r\npurser-re'],
    [
      'a signed header and half of the body',
      () => signedHead({ length: 2, body: Buffer.from('{}') }).then((h) => `${h}{`),
    ],
  ])(
    'and says %s is cut off',
    async (_, text) => {
      const { answer } = await say(await text());
      expect(answer).toMatch(/^(HTTP\/1.1 40[08] |$)/);
    },
    PATIENCE_MS,
  );
});

describe('a client that sends too much', () => {
  it('is refused before it has sent it', async () => {
    const length = BODY_BYTES_MAX + 1;
    const { answer, keptMs } = await say(await signedHead({ length, body: Buffer.alloc(length) }));
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
    expect(answer).toMatch(/connection: close/i);
    expect(keptMs).toBeLessThan(PATIENCE_MS);
  });

  it('is told no length of, and refused once it is too much', async () => {
    const piece = `${(64 * 1024).toString(16)}\r\n${' '.repeat(64 * 1024)}\r\n`;
    const head = (await signedHead({ length: 0, body: Buffer.alloc(0) })).replace(
      /content-length: 0/,
      'transfer-encoding: chunked',
    );
    const { answer } = await say(head + piece.repeat(BODY_BYTES_MAX / (64 * 1024) + 1));
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
  });
});

describe('a client that takes every connection', () => {
  it(
    'keeps the others out for no longer than it may be silent',
    async () => {
      const silent = Array.from({ length: CONNECTIONS_MAX }, () => say(''));
      await Promise.all(silent);
      await expect(abort()).resolves.toEqual({});
    },
    PATIENCE_MS,
  );
});
