// `npm run signers -- COMMAND …`: what an operator does with the three signers. One file for each group of commands.
import { parseArgs } from 'node:util';
import { fail, printResult, usageStatus, wordsOfError } from '../../shared/command-line.ts';
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
  return `usage: npm run signers -- COMMAND\n${lines.join('\n')}\n\n  --help after a command tells of that command alone. The result is printed for people, with --json as one JSON value: then a
  failure, too, is told on stdout, as {"error":{"code","message"}}. Progress and words are on the error output.
  Exit status: 0 done, 1 failed or not all three did it, 2 the command line is wrong.`;
}

/** Commands are one word or two. */
function findCommand(args: readonly string[]): { name: string; command: Command; rest: string[] } {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ');
    if (Object.hasOwn(commands, name)) return { name, command: commands[name]!, rest: args.slice(words) };
  }
  throw new UsageError(usage());
}

const usageOf = (name: string, { usage: options, summary }: Command) =>
  `usage: npm run signers -- ${`${name} ${options}`.trim()}\n      ${summary}`;

/** What every command knows. */
const common = { help: { type: 'boolean' }, json: { type: 'boolean' } } as const;

function readOptions(
  { name, command }: { name: string; command: Command },
  args: string[],
): Record<string, string | boolean | undefined> {
  try {
    const options = { ...command.options, ...common };
    return parseArgs({ args, options, strict: true }).values as Record<string, string | boolean>;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n${usageOf(name, command)}`);
  }
}

async function main(args: readonly string[]): Promise<void> {
  if (args.length === 0 || args[0] === '--help') {
    console.log(usage());
    return;
  }
  const { name, command, rest } = findCommand(args);
  const values = readOptions({ name, command }, rest);
  if (values.help) {
    console.log(usageOf(name, command));
    return;
  }
  let client: SignerClient | undefined;
  const connect = async () => {
    client ??= await connectSigners(process.env);
    return client;
  };
  try {
    const result = await command.run({ values, env: process.env, connect, tell: (line) => console.error(line) });
    printResult(result, { json: values.json === true });
  } finally {
    client?.close();
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  fail(wordsOfError(error), error instanceof UsageError ? { status: usageStatus } : {});
}
