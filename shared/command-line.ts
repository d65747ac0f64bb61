import { type ParseArgsConfig, parseArgs } from 'node:util';

/** Exit status of every command for a command line that is wrong; 1 says that the work failed. */
const usageStatus = 2;

type WithHelp<T extends ParseArgsConfig> = T & { options: T['options'] & { help: { type: 'boolean' } } };

/**
 * Reads the command line of a program that says by itself how it is used: `--help` prints that and ends with 0; what it does
 * not know is told, with the usage, and ends with 2. Neither returns.
 * @param isWrong says of values that can be read what is wrong with them
 */
export function readCommandLine<T extends ParseArgsConfig>(
  usage: string,
  config: T,
  isWrong: (values: ReturnType<typeof parseArgs<WithHelp<T>>>['values']) => string | undefined = () => undefined,
): ReturnType<typeof parseArgs<WithHelp<T>>>['values'] {
  const withHelp = { ...config, options: { ...config.options, help: { type: 'boolean' } } } as WithHelp<T>;
  let values: ReturnType<typeof parseArgs<WithHelp<T>>>['values'];
  try {
    ({ values } = parseArgs(withHelp));
  } catch (error) {
    return leave(`${(error as Error).message}\n\n${usage}`, usageStatus);
  }
  if ((values as { help?: boolean }).help) return leave(usage, 0);
  const wrong = isWrong(values);
  return wrong === undefined ? values : leave(wrong === '' ? usage : `${wrong}\n\n${usage}`, usageStatus);
}

function leave(text: string, status: number): never {
  const stream = status === 0 ? process.stdout : process.stderr;
  stream.write(`${text.trimEnd()}\n`);
  process.exit(status);
}
