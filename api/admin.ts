// `npm run admin -- …`: what an operator does with the database at hand. One file in admin/ for each group of commands.
import { adminConfig } from '../shared/config.ts';
import { createPool } from '../shared/db/pool.ts';
import { ConfigError } from '../shared/read-env.ts';
import { readCommand } from './admin/read-command.ts';
import { UsageError } from './usage-error.ts';

async function main(): Promise<void> {
  const work = readCommand(process.argv.slice(2));
  const config = adminConfig(process.env);
  const pool = createPool({ ...config.database, application: 'purser-admin' });
  try {
    console.log(JSON.stringify(await work({ pool, config }), null, 2));
  } finally {
    await pool.end();
  }
}

try {
  await main();
} catch (error) {
  const told = error instanceof UsageError || error instanceof ConfigError || 'code' in (error as object);
  console.error(told ? (error as Error).message || String((error as { code?: string }).code) : error);
  process.exit(1);
}
