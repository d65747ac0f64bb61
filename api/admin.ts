// `npm run admin -- …`: what an operator does with the database at hand. One file in admin/ for each group of commands.
import { adminConfig } from '../shared/config.ts';
import { createPool } from '../shared/db/pool.ts';
import { ConfigError } from '../shared/read-env.ts';
import { unknownVariables } from '../shared/unknown-variables.ts';
import { type CommandLine, readCommand } from './admin/read-command.ts';
import { UsageError } from './usage-error.ts';

/** The command line, or the configuration, is wrong: nothing was done. */
const exitUsage = 2;

async function main(line: CommandLine): Promise<void> {
  if ('help' in line) return void process.stdout.write(line.help);
  const { env } = process;
  const config = adminConfig(env);
  for (const sentence of unknownVariables(env)) console.error(sentence);
  const pool = createPool({ ...config.database, application: 'purser-admin' });
  try {
    console.log(line.print(await line.work({ pool, config, env })));
  } finally {
    await pool.end();
  }
}

let isRead = false;
try {
  const line = readCommand(process.argv.slice(2));
  isRead = true;
  await main(line);
} catch (error) {
  const told = error instanceof UsageError || error instanceof ConfigError || 'code' in (error as object);
  console.error(told ? (error as Error).message || String((error as { code?: string }).code) : error);
  process.exit(!isRead || error instanceof ConfigError ? exitUsage : 1);
}
