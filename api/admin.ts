// `npm run admin -- …`: what an operator does with the database at hand. One file in admin/ for each group of commands.
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { adminConfig, ConfigError } from '../shared/config.ts';
import { createPool } from '../shared/db/pool.ts';
import { PurserError } from '../shared/errors.ts';
import { accountCommands } from './admin/account.ts';
import { approvalCommands } from './admin/approval.ts';
import type { Command, Commands, Work } from './admin/command.ts';
import { keyCommands } from './admin/key.ts';
import { memberCommands } from './admin/member.ts';
import { planCommands } from './admin/plan.ts';
import { revokeCommands } from './admin/revoke-all.ts';
import { usageOf } from './admin/usage.ts';
import { UsageError } from './usage-error.ts';

const commands: Commands = {
  ...accountCommands,
  ...planCommands,
  ...keyCommands,
  ...revokeCommands,
  ...memberCommands,
  ...approvalCommands,
};
const usage = usageOf(commands);

/** By its words: one, or two. */
function findCommand(args: readonly string[]): { command: Command; rest: string[] } {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ');
    if (Object.hasOwn(commands, name)) return { command: commands[name]!, rest: args.slice(words) };
  }
  throw new UsageError(usage);
}

function readWork({ command, rest }: { command: Command; rest: string[] }): Work {
  try {
    const options = Object.fromEntries(Object.keys(command.options).map((name) => [name, { type: 'string' as const }]));
    const { positional } = command;
    const { values, positionals } = parseArgs({ args: rest, options, allowPositionals: positional !== undefined });
    if (positionals.length > 1) throw new UsageError(usage);
    return command.prepare(positional === undefined ? values : { ...values, [positional]: positionals[0] });
  } catch (error) {
    if (error instanceof z.ZodError) throw new UsageError(error.issues.map(({ message }) => message).join('\n'));
    if ((error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS'))
      throw new UsageError(`${(error as Error).message}\n\n${usage}`);
    throw error;
  }
}

/** A refusal names the member of a request that is at fault; here that came from an option. */
function inOptions(error: unknown, { optionOf = {} }: Command): unknown {
  if (!(error instanceof PurserError)) return error;
  const option = error.param === undefined ? undefined : optionOf[error.param];
  const isNamed = option !== undefined && error.message.startsWith(`${error.param} `);
  return new UsageError(isNamed ? error.message.replace(error.param!, option) : error.message);
}

async function main(): Promise<void> {
  const found = findCommand(process.argv.slice(2));
  const work = readWork(found);
  const config = adminConfig(process.env);
  const pool = createPool({ ...config.database, application: 'purser-admin' });
  try {
    console.log(JSON.stringify(await work({ pool, config }), null, 2));
  } catch (error) {
    throw inOptions(error, found.command);
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
