import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../dev/ports.ts';
import { eventually } from '../../support/client.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';
import { usdcContract } from './harness.ts';

const main = fileURLToPath(new URL('../../../api/main.ts', import.meta.url));
const startTimeoutMs = 120_000;

/** The api in a process of its own, that may be killed. */
export interface ApiProcess {
  readonly url: string;
  /** Ends it at once, as a power cut would. */
  kill(): Promise<void>;
}

/** Starts it on a free port, on a database and a Temporal that others use as well. */
export async function startApiProcess({
  databaseUrl,
  temporalAddress,
  usdc = usdcContract,
  env = {},
}: {
  databaseUrl: string;
  temporalAddress: string;
  usdc?: string;
  env?: Readonly<Record<string, string>>;
}): Promise<ApiProcess> {
  const port = await freePort();
  const { PURSER_WEBHOOK_PUBLIC_KEY_FILE } = (await testWebhookKeys()).env;
  const child = spawn(process.execPath, [main], {
    env: {
      PATH: process.env.PATH,
      PURSER_ENV: 'sandbox',
      PURSER_CHAINS: 'eip155:31337',
      PURSER_EXTRA_TOKENS: `eip155:31337/erc20:${usdc}=USDC/6/USD Coin/2`,
      PURSER_LOG_LEVEL: 'warn',
      PURSER_LOOPBACK_TARGETS: 'on',
      PURSER_PORT: String(port),
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: temporalAddress,
      PURSER_WEBHOOK_PUBLIC_KEY_FILE,
      ...env,
    },
    stdio: 'ignore',
  });
  const url = `http://127.0.0.1:${port}`;
  const exited = once(child, 'exit');
  await eventually(
    () => fetch(`${url}/healthz`),
    ({ ok }) => ok,
    { timeoutMs: startTimeoutMs },
  );
  return {
    url,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
