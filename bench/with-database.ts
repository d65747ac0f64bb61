import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../dev/ports.ts';
import { type Postgres, startPostgres } from '../dev/postgres.ts';
import { startGuard } from '../dev/process.ts';
import type { Progress } from '../dev/progress.ts';
import { migrate } from '../shared/db/migrate.ts';

/** Others, such as the user that Postgres runs as, may pass through the folder and not look around in it. */
const passThrough = 0o711;

/**
 * Runs `use` on a migrated and empty Postgres of its own, which waits for the disk as one in service does, and stops
 * and removes it, whatever happens.
 * @throws what `use` throws
 */
export async function withDatabase<T>(
  { progress }: { progress: Progress },
  use: (urls: Pick<Postgres, 'appUrl' | 'ownerUrl' | 'superuserUrl'>) => Promise<T>,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bench-'));
  chmodSync(dir, passThrough);
  const guard = startGuard();
  try {
    const place = { dir: join(dir, 'postgres'), port: await freePort(), logFile: join(dir, 'postgres.log') };
    const postgres = await progress.step('Postgres', () => startPostgres(guard, place));
    try {
      await migrate({ databaseUrl: postgres.ownerUrl });
      return await use(postgres);
    } finally {
      await postgres.stop();
    }
  } finally {
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
