import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOCAL_CHAIN } from '../dev/anvil.ts';
import { freePort, LOOPBACK } from '../dev/ports.ts';
import { startGuard } from '../dev/process.ts';
import type { Progress } from '../dev/progress.ts';
import { startApi } from '../dev/services.ts';
import { newSecretKey } from '../test/support/webhook-rows.ts';

/**
 * Starts an api process on a database, as in service but for Temporal, which is not there, runs `use`, and stops it,
 * whatever happens.
 * @throws what `use` throws
 */
export async function withApi<T>(
  { appUrl, progress }: { appUrl: string; progress: Progress },
  use: (api: { baseUrl: string }) => Promise<T>,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bench-'));
  const guard = startGuard();
  try {
    const { d: _private, ...publicKey } = await newSecretKey();
    const publicKeyFile = join(dir, 'webhook-key.json');
    writeFileSync(publicKeyFile, JSON.stringify(publicKey));
    const port = await freePort();
    const env = {
      PATH: process.env.PATH,
      PURSER_ENV: 'sandbox',
      PURSER_CHAINS: LOCAL_CHAIN,
      PURSER_LOG_LEVEL: 'warn',
      PURSER_PORT: String(port),
      DATABASE_URL: appUrl,
      TEMPORAL_ADDRESS: `${LOOPBACK}:9`,
      PURSER_WEBHOOK_PUBLIC_KEY_FILE: publicKeyFile,
    };
    const api = await progress.step('api', () => startApi(guard, { env, port, logFile: join(dir, 'api.log') }));
    try {
      return await use({ baseUrl: `http://${LOOPBACK}:${port}` });
    } finally {
      await api.stop();
    }
  } finally {
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
