import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import express from 'express';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type RunningServer, startServer } from '../../../api/server.ts';
import { freePort } from '../../../dev/ports.ts';
import { createLogger } from '../../../shared/log.ts';
import { bestOf } from '../../support/best-of.ts';
import { eventually } from '../../support/client.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';

const log = createLogger({ process: 'test', level: 'silent' });
const file = (name: string) => fileURLToPath(new URL(`../../../${name}`, import.meta.url));

describe('an api process that stops', () => {
  let server: RunningServer;
  let agent: Agent;
  let release: () => void;
  let arrived: Promise<void>;

  beforeEach(async () => {
    const app = express();
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    arrived = new Promise<void>((resolve) => {
      app.get('/slow', async (_request, response) => {
        resolve();
        await held;
        response.json('done');
      });
    });
    app.get('/quick', (_request, response) => void response.json('done'));
    server = await startServer({ app, host: '127.0.0.1', port: 0, log });
    agent = new Agent({ keepAlive: true });
  });
  afterEach(async () => {
    release();
    agent.destroy();
    await server.stop();
  });

  const ask = async (path: string) => {
    const [answer] = (await once(get(`${server.url}${path}`, { agent }), 'response')) as [IncomingMessage];
    answer.resume();
    await once(answer, 'end');
    return { status: answer.statusCode, connection: answer.headers.connection };
  };

  it('ends what is under way, and then takes no connection', async () => {
    const answer = ask('/slow');
    await arrived;
    const stopped = server.stop();
    release();
    expect(await answer).toEqual({ status: 200, connection: 'close' });
    await stopped;
    const refused = connect(Number(new URL(server.url).port), '127.0.0.1');
    const [error] = await once(refused, 'error');
    expect(error).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('tells on each connection that it was the last answer, and whoever asks that it is not ready', async () => {
    expect(await ask('/quick')).toEqual({ status: 200, connection: 'keep-alive' });
    // Somebody is connected and silent: who keeps a connection is given time to hear of the end.
    const silent = connect(Number(new URL(server.url).port), '127.0.0.1');
    await once(silent, 'connect');
    const stopped = server.stop();
    expect(await ask('/quick')).toEqual({ status: 200, connection: 'close' });
    expect(await ask('/readyz')).toEqual({ status: 503, connection: 'close' });
    silent.destroy();
    await stopped;
  });

  it('ends at once when nobody is connected', async () => {
    const withinMs = 1_500;
    const tookMs = await bestOf(
      async () => {
        const alone = await startServer({ app: express(), host: '127.0.0.1', port: 0, log });
        const from = performance.now();
        await alone.stop();
        return performance.now() - from;
      },
      { withinMs },
    );
    // With somebody there it takes three seconds.
    expect(tookMs).toBeLessThan(withinMs);
  });
});

describe('a process', () => {
  const env = {
    ...{ PATH: process.env.PATH, PURSER_ENV: 'sandbox', PURSER_CHAINS: 'eip155:31337' },
    // Nobody listens on port 1.
    ...{ DATABASE_URL: 'postgres://purser_app@127.0.0.1:1/purser', TEMPORAL_ADDRESS: '127.0.0.1:1' },
  };
  async function start(main: string, more: Record<string, string>) {
    const child = spawn(process.execPath, [file(main)], {
      env: { ...env, ...(await testWebhookKeys()).env, ...more },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (part: Buffer) => {
      said += part;
    });
    const says = (words: string) =>
      eventually(
        async () => said,
        (text) => text.includes(words),
        { timeoutMs: 150_000 },
      );
    return { child, says, exited: once(child, 'exit') as Promise<[number | null, string | null]> };
  }

  it('that is told twice within a second hears one wish, and told again later ends at once', async () => {
    const port = await freePort();
    const { child, says, exited } = await start('api/main.ts', { PURSER_PORT: String(port) });
    await says('listening');
    const silent = connect(port, '127.0.0.1');
    silent.on('error', () => {});
    await once(silent, 'connect');
    const from = performance.now();
    child.kill('SIGTERM');
    child.kill('SIGINT');
    await says('stopping');
    // Each one more is either within the second, or ends the process; without it the silent connection takes three.
    const again = setInterval(() => child.kill('SIGTERM'), 100);
    const [code] = await exited;
    clearInterval(again);
    silent.destroy();
    expect(code).toBe(143);
    expect(performance.now() - from).toBeGreaterThan(950);
  });

  it('of a worker ends in order also while Temporal is away', async () => {
    const { child, says, exited } = await start('worker/main.ts', {
      PURSER_QUEUES: 'wallet-webhooks',
      PURSER_SMTP_URL: 'smtp://127.0.0.1:1',
      PURSER_MAIL_FROM: 'purser@example.com',
      PURSER_PUBLIC_URL: 'http://127.0.0.1:1',
    });
    await says('cannot be reached yet');
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
  });
});
