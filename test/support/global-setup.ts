import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { btcdBinary } from '../../dev/btcd-binary.ts';
import { freePort } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { startGuard } from '../../dev/process.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { temporalBinary } from '../../dev/temporal-binary.ts';
import { createTemplateDatabase } from './database.ts';

/** What the test files get by `inject('stack')`. */
export interface TestStack {
  /** Superuser of the one Postgres of this run; use `createTestDatabase` instead. */
  superuserUrl: string;
  /** Passwords in these URLs open every test database. */
  ownerUrl: string;
  appUrl: string;
  /** Name of the migrated database that test databases are copies of. */
  templateDatabase: string;
  /** The one Temporal server of this run, namespace `default`; use workflow ids and task queues of your own. */
  temporalAddress: string;
  /** Path of the `temporal` program, for tests that kill a server of their own. */
  temporalBinary: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    stack: TestStack;
  }
}

let running: Promise<{ stack: TestStack; stop: () => Promise<void> }> | undefined;
let users = 0;

/** One Postgres and one Temporal for all projects of a run. Called once for each project that names this file. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  users += 1;
  running ??= startStack();
  const { stack, stop } = await running;
  project.provide('stack', stack);
  return async () => {
    users -= 1;
    if (users === 0) await stop();
  };
}

async function startStack(): Promise<{ stack: TestStack; stop: () => Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-test-'));
  chmodSync(dir, 0o711);
  const guard = startGuard();
  const onProgress = (message: string) => console.log(message);
  // Built once, here, for it takes longer than a test may. Where it cannot be, the tests that need it say why.
  const [binary] = await Promise.all([
    temporalBinary(process.env, { onProgress }),
    btcdBinary(process.env, { onProgress }).catch(() => undefined),
  ]);
  const [postgres, temporal] = await Promise.all([
    startPostgres(guard, {
      dir: join(dir, 'postgres'),
      port: await freePort(),
      logFile: join(dir, 'postgres.log'),
      durable: false,
    }),
    startTemporal(guard, { binary, port: await freePort(), logFile: join(dir, 'temporal.log') }),
  ]);
  const { superuserUrl, ownerUrl, appUrl } = postgres;
  const templateDatabase = await createTemplateDatabase({ superuserUrl, ownerUrl });
  return {
    stack: {
      superuserUrl,
      ownerUrl,
      appUrl,
      templateDatabase,
      temporalAddress: temporal.address,
      temporalBinary: binary,
    },
    async stop() {
      await Promise.all([temporal.stop(), postgres.stop()]);
      await guard.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
