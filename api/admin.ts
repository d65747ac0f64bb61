// `npm run admin -- …`: what an operator does with the database at hand. One file in admin/ for each group of commands.

import { fail, printResult, usageStatus, wordsOfError } from '../shared/command-line.ts';
import { adminConfig } from '../shared/config.ts';
import { createPool } from '../shared/db/pool.ts';
import { ConfigError } from '../shared/read-env.ts';
import { unknownVariables } from '../shared/unknown-variables.ts';
import { type CommandLine, readCommand } from './admin/read-command.ts';
import { UsageError } from './usage-error.ts';

async function main(line: CommandLine): Promise<void> {
  if ('help' in line) return void process.stdout.write(line.help);
  const { env } = process;
  const config = adminConfig(env);
  for (const sentence of unknownVariables(env)) console.error(sentence);
  const pool = createPool({ ...config.database, application: 'purser-admin' });
  try {
    printResult(await line.work({ pool, config, env }), line);
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
  const { code } = error as { code?: unknown };
  const isTold = error instanceof UsageError || error instanceof ConfigError || code !== undefined;
  // What nobody expected comes with where it came from.
  const text = isTold ? wordsOfError(error) : String((error as Error).stack);
  fail(text, {
    ...((!isRead || error instanceof ConfigError) && { status: usageStatus }),
    ...(isRead && typeof code === 'string' && { code }),
    summary: wordsOfError(error),
  });
}
