import { type Logger, pino } from 'pino';

export type { Logger };

/** Members that are never written, wherever they stand: a log is read by more people than may hold these. */
const secretPaths = ['authorization', 'apiKey', 'api_key', 'key', 'secret', 'share', 'receipt', 'password'].flatMap(
  (name) => [name, `*.${name}`, `*.*.${name}`],
);

/**
 * The process's logger: JSON lines on standard output.
 * @param process what writes, e.g. `api`, `worker`, `signer-1`
 * @param level one of pino's levels, default `info`
 */
export function createLogger({ process, level = 'info' }: { process: string; level?: string }): Logger {
  return pino({ level, base: { process }, redact: { paths: secretPaths, censor: '[redacted]' } });
}
