import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../../dev/ports.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';

const main = fileURLToPath(new URL('../../../api/main.ts', import.meta.url));

async function start(env: Record<string, string>): Promise<ChildProcess> {
  return spawn(process.execPath, [main], {
    env: { PATH: process.env.PATH, ...(await testWebhookKeys()).env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function until<T>(probe: () => Promise<T>, deadlineMs = 90_000): Promise<T> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    try {
      return await probe();
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

describe('the api process', () => {
  const environment = {
    PURSER_ENV: 'sandbox',
    PURSER_CHAINS: 'eip155:31337',
    // Nobody listens on port 1: both dependencies are down.
    DATABASE_URL: 'postgres://purser_app@127.0.0.1:1/purser',
    TEMPORAL_ADDRESS: '127.0.0.1:1',
  };
  let child: ChildProcess;
  let url: string;

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    child = await start({ ...environment, PURSER_PORT: String(port) });
    await until(() => fetch(`${url}/healthz`));
  });
  afterAll(() => {
    child?.kill('SIGKILL');
  });

  it('is alive while Postgres and Temporal are down, and names both', async () => {
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const ready = await fetch(`${url}/readyz`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ checks: { postgres: { ok: false }, temporal: { ok: false } } });
  });

  it('answers 503 with Retry-After, and never 500, while Postgres is down', async () => {
    const { makeApiKey } = await import('../../../shared/api-key.ts');
    const { key } = makeApiKey({ environment: 'sandbox' });
    const answer = await fetch(`${url}/api/v1/agents`, { headers: { 'x-api-key': key } });
    expect(answer.status).toBe(503);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await answer.json()).toMatchObject({ code: 'service_unavailable', type: 'internal_error' });
  });

  it('says in one sentence that its port is in use', async () => {
    const other = await start({ ...environment, PURSER_PORT: new URL(url).port });
    let said = '';
    other.stderr!.on('data', (part) => {
      said += part;
    });
    const [code] = await once(other, 'exit');
    expect([code, said.trim()]).toEqual([1, `Port ${new URL(url).port} is in use. Set PURSER_PORT to a free one.`]);
  });

  it('ends by itself when it is told to', async () => {
    child.kill('SIGTERM');
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
  });
});
