import { execFile } from 'node:child_process';
import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Work } from '../../../api/admin/command.ts';
import { readCommand } from '../../../api/admin/read-command.ts';
import { UsageError } from '../../../api/usage-error.ts';
import { adminConfig } from '../../../shared/config.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';

const admin = fileURLToPath(new URL('../../../api/admin.ts', import.meta.url));

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
type Run = (args: string[], env?: Record<string, string>) => Promise<Ran>;

/** `npm run admin -- …` on a database. */
export function createAdmin({ databaseUrl }: { databaseUrl: () => string }): {
  /** In this process: some seconds faster. What an operator is not to see as it is makes the test fail. */
  readonly run: Run;
  /** As an operator calls it. */
  readonly runProcess: Run;
} {
  const withDefaults = (env: Record<string, string>) => ({
    ...{ PATH: process.env.PATH, PURSER_ENV: 'sandbox', DATABASE_URL: databaseUrl() },
    ...env,
  });
  return {
    async run(args, env = {}) {
      let isRead = false;
      try {
        const line = readCommand(args);
        isRead = true;
        if ('help' in line) return { code: 0, stdout: line.help, stderr: '' };
        return { code: 0, stdout: JSON.stringify(await withPool(line.work, withDefaults(env))), stderr: '' };
      } catch (error) {
        if (error instanceof UsageError) return { code: isRead ? 1 : 2, stdout: '', stderr: `${error.message}\n` };
        throw error;
      }
    },
    runProcess: (args, env = {}) =>
      promisify(execFile)(process.execPath, [admin, ...args, '--json'], { env: withDefaults(env) }).then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        (error: Ran) => error,
      ),
  };
}

async function withPool(work: Work, env: NodeJS.ProcessEnv): Promise<unknown> {
  const config = adminConfig(env);
  const pool = createPool({ ...config.database, application: 'test-admin' });
  try {
    return await work({ pool, config, env });
  } finally {
    await pool.end();
  }
}

/** What the audit log says of whoever is at the console. */
export const byOperator = {
  actor_type: 'system',
  actor_id: 'operator',
  actor_name: userInfo().username,
  result: 'success',
};

/** All entries of an account, in their order. */
export async function entriesOf(pool: Pool, accountId: string) {
  const { rows } = await pool.query('select * from audit_inbox where account_id = $1 order by created_at, id', [
    accountId,
  ]);
  return rows;
}
