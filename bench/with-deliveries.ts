import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOCAL_CHAIN } from '../dev/anvil.ts';
import { freePort } from '../dev/ports.ts';
import { startGuard, startProcess } from '../dev/process.ts';
import type { Progress } from '../dev/progress.ts';
import { startTemporal } from '../dev/temporal.ts';
import { temporalBinary } from '../dev/temporal-binary.ts';
import { certificate } from '../test/support/certificate.ts';
import { newSecretKey } from '../test/support/webhook-rows.ts';

/** What deliveries need besides a database. */
export interface DeliveryParts {
  readonly temporalAddress: string;
  /** Opens secrets of webhooks (JWK). */
  readonly key: Awaited<ReturnType<typeof newSecretKey>>;
  /** Starts a worker process of the role `wallet-webhooks`, as in service. @returns what stops it */
  startWorker(): Promise<() => Promise<void>>;
}

/** Brings up a Temporal on disk and keys, runs `use`, and stops everything, whatever happens. @throws what `use` throws */
export async function withDeliveries<T>(
  { appUrl, progress }: { appUrl: string; progress: Progress },
  use: (parts: DeliveryParts) => Promise<T>,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bench-'));
  const file = (name: string) => join(dir, name);
  const guard = startGuard();
  try {
    const place = { port: await freePort(), dbFile: file('temporal.db'), logFile: file('temporal.log') };
    const binary = await temporalBinary(process.env);
    const temporal = await progress.step('Temporal', () => startTemporal(guard, { binary, ...place }));
    const key = await newSecretKey();
    writeFileSync(file('keys.json'), JSON.stringify({ keys: [key] }));
    writeFileSync(file('ca.pem'), certificate.cert);
    const nobody = 'http://127.0.0.1:9';
    const env = {
      PATH: process.env.PATH,
      PURSER_ENV: 'sandbox',
      PURSER_QUEUES: 'wallet-webhooks',
      PURSER_CHAINS: LOCAL_CHAIN,
      DATABASE_URL: appUrl,
      TEMPORAL_ADDRESS: temporal.address,
      PURSER_SMTP_URL: 'smtp://127.0.0.1:9',
      PURSER_MAIL_FROM: 'Purser <purser@example.com>',
      PURSER_PUBLIC_URL: nobody,
      PURSER_WEBHOOK_KEYS_FILE: file('keys.json'),
      PURSER_LOOPBACK_TARGETS: 'on',
      PURSER_TARGET_CA_FILE: file('ca.pem'),
    };
    const args = [fileURLToPath(new URL('../worker/main.ts', import.meta.url))];
    const startWorker = async () => {
      const command = { name: 'The worker', command: process.execPath, args, env, logFile: file('worker.log') };
      const { stop } = await startProcess(guard, { ...command, stopTimeoutMs: 40_000 });
      return stop;
    };
    try {
      return await use({ temporalAddress: temporal.address, key, startWorker });
    } finally {
      await temporal.stop();
    }
  } finally {
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
