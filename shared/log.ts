import { type Logger, pino } from 'pino';
import { withoutSecrets } from './domain/without-secrets.ts';
import { logFields } from './log-context.ts';

export type { Logger };

/** Members that are never written, wherever they stand: a log is read by more people than may hold these. */
const secretNames = [
  ...['authorization', 'Authorization', 'cookie', 'set-cookie', 'x-api-key', 'X-API-Key'],
  ...[
    'apiKey',
    'api_key',
    'key',
    'kek',
    'd',
    'secret',
    'clientSecret',
    'client_secret',
    'share',
    'receipt',
    'password',
  ],
  ...['accessToken', 'access_token', 'refreshToken', 'refresh_token', 'id_token', 'exchangeCode', 'exchange_code'],
  ...[
    'codeVerifier',
    'code_verifier',
    'connectionString',
    'DATABASE_URL',
    'PURSER_SMTP_URL',
    'PURSER_OIDC_CLIENT_SECRET',
  ],
];
const secretPaths = secretNames.flatMap((name) => {
  const member = /^\w+$/.test(name) ? `.${name}` : `["${name}"]`;
  return [member.replace(/^\./, ''), `*${member}`, `*.*${member}`];
});

/**
 * The process's logger: JSON lines on standard output. Every line carries the ids of what it is about (log-context.ts). What
 * looks like a secret is taken out of it, also where it stands in the message or the stack of an error.
 * @param process what writes, e.g. `api`, `worker`, `signer-1`
 * @param level one of pino's levels, default `info`
 * @param write takes the lines in place of standard output
 */
export function createLogger({
  process,
  level = 'info',
  write,
}: {
  process: string;
  level?: string;
  write?: (line: string) => void;
}): Logger {
  const options = {
    level,
    base: { process },
    // A copy: pino writes what the line says itself into it, which so wins.
    mixin: () => ({ ...logFields() }),
    redact: { paths: secretPaths, censor: '[redacted]' },
    hooks: { streamWrite: withoutSecrets },
  };
  return write ? pino(options, { write }) : pino(options);
}
