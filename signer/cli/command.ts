import type { ParseArgsOptionsConfig } from 'node:util';
import type { SignerClient } from '../client.ts';

/** The command line is wrong; the message says how it should be. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface CommandContext {
  values: Readonly<Record<string, string | boolean | undefined>>;
  env: NodeJS.ProcessEnv;
  /** The signers of the environment, asked as the operator. Closed when the command has ended. @throws UsageError */
  connect(): Promise<SignerClient>;
  /** One line of progress, on the error output. */
  tell(line: string): void;
}

/** One command of `npm run signers`. */
export interface Command {
  /** What it does, in one line. */
  summary: string;
  /** Its options as they are written, such as `--key KEY [--party N]`. */
  usage: string;
  options: ParseArgsOptionsConfig;
  /** @returns what is printed: with `--json` as it is, else as names and values */
  run(context: CommandContext): Promise<object>;
}
