import { parseArgs } from 'node:util';
import { z } from 'zod';
import { PurserError } from '../../shared/errors.ts';
import { UsageError } from '../usage-error.ts';
import { accountCommands } from './account.ts';
import { approvalCommands } from './approval.ts';
import type { Command, Commands, Work } from './command.ts';
import { doctorCommands } from './doctor/command.ts';
import { freezeCommands } from './freeze.ts';
import { keyCommands } from './key.ts';
import { memberCommands } from './member.ts';
import { planCommands } from './plan.ts';
import { reconcileCommands } from './reconcile.ts';
import { revokeCommands } from './revoke-all.ts';
import { helpOf, usageOf } from './usage.ts';

const commands: Commands = {
  ...accountCommands,
  ...planCommands,
  ...keyCommands,
  ...revokeCommands,
  ...memberCommands,
  ...approvalCommands,
  ...doctorCommands,
  ...freezeCommands,
  ...reconcileCommands,
};
const usage = usageOf(commands);

/** What a command line asks for. */
export type CommandLine =
  /** Help, and nothing else. */
  | { readonly help: string }
  /** The work; it throws UsageError for what an operator can put right, and names the option. */
  | { readonly work: Work; readonly json: boolean; readonly show?: (result: unknown) => string };

/** @throws UsageError where the command line is wrong */
export function readCommand(args: readonly string[]): CommandLine {
  if (args.includes('--help')) return { help: helpFor(args.filter((arg) => arg !== '--help')) };
  const { command, rest } = findCommand(args);
  const work = prepare(
    command,
    rest.filter((arg) => arg !== '--json'),
  );
  const { show } = command;
  return {
    async work(deps) {
      try {
        return await work(deps);
      } catch (error) {
        throw inOptions(error, command);
      }
    },
    json: rest.includes('--json'),
    ...(show && { show }),
  };
}

/** Of the command that is named; else of all. */
function helpFor(args: readonly string[]): string {
  const name = nameIn(args);
  return name === undefined ? usage : helpOf(name, commands);
}

function findCommand(args: readonly string[]): { command: Command; rest: string[] } {
  const name = nameIn(args);
  if (name === undefined) throw new UsageError(usage);
  return { command: commands[name]!, rest: args.slice(name.split(' ').length) };
}

/** A command's words: two, or one. */
function nameIn(args: readonly string[]): string | undefined {
  return [2, 1].map((words) => args.slice(0, words).join(' ')).find((name) => Object.hasOwn(commands, name));
}

function prepare(command: Command, args: string[]): Work {
  const { positional } = command;
  const options = Object.fromEntries(Object.keys(command.options).map((name) => [name, { type: 'string' as const }]));
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: positional !== undefined });
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
