import { type ParseArgsConfig, parseArgs } from 'node:util';
import { showResult } from './show-result.ts';

/** Exit status of every command for work that failed, or a result that says that something is wrong. */
const failedStatus = 1;
/** For a command line, or a configuration, that is wrong: nothing was done. */
export const usageStatus = 2;

/** What every program knows besides its own options. */
const common = { help: { type: 'boolean' }, json: { type: 'boolean' } } as const;
type WithCommon<T extends ParseArgsConfig> = T & { options: T['options'] & typeof common };
type Arguments<T extends ParseArgsConfig> = ReturnType<typeof parseArgs<WithCommon<T>>>;

/**
 * Reads the command line of a program that says by itself how it is used: `--help` prints that and ends with 0; what it does
 * not know is told, with the usage, and ends with 2. Neither returns.
 * @param isWrong says of what can be read what is wrong with it; an empty text: the usage says it
 */
export function readArguments<T extends ParseArgsConfig>(
  usage: string,
  config: T,
  isWrong: (given: Arguments<T>) => string | undefined = () => undefined,
): Arguments<T> {
  const all = { ...config, options: { ...config.options, ...common } } as WithCommon<T>;
  let given: Arguments<T>;
  try {
    given = parseArgs(all);
  } catch (error) {
    return refuse((error as Error).message, usage);
  }
  if ((given.values as { help?: boolean }).help) {
    process.stdout.write(`${usage.trimEnd()}\n`);
    process.exit(0);
  }
  const wrong = isWrong(given);
  return wrong === undefined ? given : refuse(wrong, usage);
}

/** The same of a program that has options only. */
export function readCommandLine<T extends ParseArgsConfig>(
  usage: string,
  config: T,
  isWrong: (values: Arguments<T>['values']) => string | undefined = () => undefined,
): Arguments<T>['values'] {
  return readArguments(usage, config, ({ values }) => isWrong(values)).values;
}

function refuse(wrong: string, usage: string): never {
  return fail(wrong === '' ? usage : `${wrong}\n\n${usage}`, {
    status: usageStatus,
    summary: wrong === '' ? usage.trim() : wrong,
  });
}

/** Prints what a command found or did: as JSON where that was asked for, else for people. It is all that stdout gets. */
export function printResult<T>(
  result: T,
  { json = false, show = showResult }: { json?: boolean | undefined; show?: (result: T) => string } = {},
): void {
  process.stdout.write(`${(json ? JSON.stringify(result, null, 2) : show(result)).trimEnd()}\n`);
}

/**
 * Tells on stderr why a command could not do its work, and ends it; where JSON was asked for, stdout gets
 * `{"error":{"code","message"}}`.
 * @param code for programs; by default `usage` for a wrong command line or configuration, else `failed`
 * @param summary what the JSON says, where the text says more
 */
export function fail(
  text: string,
  {
    status = failedStatus,
    code = status === usageStatus ? 'usage' : 'failed',
    summary = text,
  }: { status?: number; code?: string | undefined; summary?: string } = {},
): never {
  process.stderr.write(`${text.trimEnd()}\n`);
  if (process.argv.includes('--json')) printResult({ error: { code, message: summary.trimEnd() } }, { json: true });
  process.exit(status);
}

/** What is thrown, for people: some errors of connections have a code and no message. */
export function wordsOfError(error: unknown): string {
  const { message, code } = error as Error & { code?: unknown };
  return message || String(code ?? error);
}
