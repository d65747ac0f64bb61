// `npm run sign-in -- EMAIL [ACCOUNT]`: signs in over HTTP against a running `npm start`, and prints the tokens.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { fail, printResult, readArguments } from '../shared/command-line.ts';
import { signInAt } from './sign-in-at.ts';

const usage = `Usage: npm run sign-in -- EMAIL [ACCOUNT] [--json]

  EMAIL     owner@example.com or approver@example.com, whom the identity provider of npm start knows
  ACCOUNT   acct_…, where the person belongs to several

  Prints the tokens, with --json as one JSON value. Exit status: 0 signed in, 1 failed, 2 the command line is wrong.
`;

function readDevFile() {
  const file = join(process.env.PURSER_HOME ?? '.purser', 'dev.json');
  try {
    return z.object({ base_url: z.url() }).parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    throw new Error(
      `${file} cannot be read: start the service first (npm start), in this folder or with the same PURSER_HOME.`,
    );
  }
}

const { positionals, values } = readArguments(usage, { allowPositionals: true }, ({ positionals: given }) =>
  given.length === 1 || given.length === 2 ? undefined : '',
);
const [email, accountId] = positionals;
try {
  const { base_url: baseUrl } = readDevFile();
  printResult(await signInAt({ baseUrl, email: email!, ...(accountId && { accountId }) }), values);
} catch (error) {
  fail((error as Error).message);
}
