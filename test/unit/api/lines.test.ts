import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import express from 'express';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Lines, sendLines } from '../../../api/lines.ts';

const wide = { text: 'x'.repeat(50_000) };

/** A server that sends these batches, and tells how that ended. */
async function serve(batches: () => AsyncGenerator<readonly unknown[]>, options?: { stallMs?: number }) {
  const ends: string[] = [];
  const app = express();
  app.get('/', async (_request, response) => {
    try {
      await sendLines(response, new Lines(batches()), options);
      ends.push('sent');
    } catch (error) {
      ends.push(String(error));
      response.destroy();
    }
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/`, port, ends };
}

/** Batches without end, until somebody stops asking. */
function endless() {
  const state = { isStopped: false, given: 0 };
  async function* batches() {
    try {
      for (;;) {
        state.given += 1;
        yield [wide, wide];
      }
    } finally {
      state.isStopped = true;
    }
  }
  return { state, batches };
}

describe('lines', () => {
  it('are sent as they are made, each ended by a line feed', async () => {
    const { url, ends } = await serve(async function* () {
      yield [{ a: 1 }, { b: 'x\ny' }];
      yield [];
      yield ['\u2028', null];
    });
    const response = await fetch(url);
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    expect(await response.text()).toBe('{"a":1}\n{"b":"x\\ny"}\n"\u2028"\nnull\n');
    expect(ends).toEqual(['sent']);
  });

  it('are not made for HEAD', async () => {
    const { state, batches } = endless();
    const { url } = await serve(batches);
    const response = await fetch(url, { method: 'HEAD' });
    expect([response.headers.get('content-type'), state.given]).toEqual(['application/x-ndjson', 0]);
  });

  it('end with the connection where they cannot be made to the end', async () => {
    const { url, ends } = await serve(async function* () {
      yield [1, 2];
      throw new Error('the database is gone');
    });
    await expect(fetch(url).then((response) => response.text())).rejects.toThrow();
    expect(ends).toEqual(['Error: the database is gone']);
  });

  it('are made no longer for a client that leaves, nor for one that takes nothing any more', async () => {
    for (const leaves of [true, false]) {
      const { state, batches } = endless();
      const { port, ends } = await serve(batches, { stallMs: leaves ? 60_000 : 1_000 });
      const socket = connect(port, '127.0.0.1');
      socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      while (state.given === 0) await delay(10);
      if (leaves) socket.destroy();
      while (!state.isStopped) await delay(10);
      while (ends.length === 0) await delay(10);
      expect(ends).toEqual(['sent']);
      socket.destroy();
    }
  });

  it('go on for a client that is slow', async () => {
    const { port, ends } = await serve(
      async function* () {
        for (let index = 0; index < 200; index += 1) yield [wide];
      },
      // It takes twice as long in all.
      { stallMs: 3_000 },
    );
    const socket = connect(port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    let length = 0;
    for await (const chunk of socket) {
      length += (chunk as Buffer).length;
      await delay(30);
    }
    expect(length).toBeGreaterThan(200 * 50_000);
    expect(ends).toEqual(['sent']);
  });
});
