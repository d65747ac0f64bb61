// `npm run signers -- COMMAND …`: what an operator does with the three signers. One file for each group of commands.
import { parseArgs } from 'node:util';
import type { SignerClient } from '../client.ts';
import { backupCommands } from './backup.ts';
import { type Command, UsageError } from './command.ts';
import { connectSigners } from './connect.ts';
import { freezeCommands } from './freeze.ts';
import { limitsCommands } from './limits.ts';
import { ownerKeyCommands } from './owner-key.ts';
import { refreshCommands } from './refresh.ts';
import { repairCommands } from './repair.ts';
import { restoreCommands } from './restore.ts';
import { statusCommands } from './status.ts';
import { unbanCommands } from './unban.ts';

const commands: Readonly<Record<string, Command>> = {
  ...statusCommands,
  ...backupCommands,
  ...restoreCommands,
  ...refreshCommands,
  ...repairCommands,
  ...unbanCommands,
  ...freezeCommands,
  ...ownerKeyCommands,
  ...limitsCommands,
};

function usage(): string {
  const lines = Object.entries(commands).map(
    ([name, { usage, summary }]) => `  ${`${name} ${usage}`.trim()}\n      ${summary}`,
  );
  return `usage: npm run signers -- COMMAND\n${lines.join('\n')}`;
}

/** Commands are one word or two. */
function findCommand(args: readonly string[]): { command: Command; rest: string[] } {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ');
    if (Object.hasOwn(commands, name)) return { command: commands[name]!, rest: args.slice(words) };
  }
  throw new UsageError(usage());
}

function readOptions(command: Command, args: string[]): Record<string, string | boolean | undefined> {
  try {
    return parseArgs({ args, options: command.options, strict: true }).values as Record<string, string | boolean>;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\nusage: ${command.usage}`);
  }
}

async function main(args: readonly string[]): Promise<void> {
  if (args.length === 0 || args[0] === '--help') {
    console.log(usage());
    return;
  }
  const { command, rest } = findCommand(args);
  let client: SignerClient | undefined;
  const connect = async () => {
    client ??= await connectSigners(process.env);
    return client;
  };
  try {
    const values = readOptions(command, rest);
    const result = await command.run({ values, env: process.env, connect, tell: (line) => console.error(line) });
    console.log(JSON.stringify(result, null, 2));
  } finally {
    client?.close();
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(error instanceof UsageError ? 2 : 1);
}
