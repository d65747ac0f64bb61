// `npm run sign-in -- EMAIL [ACCOUNT]`: signs in over HTTP against a running `npm start`, and prints the tokens.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { signInAt } from './sign-in-at.ts';

const usage = `Usage: npm run sign-in -- EMAIL [ACCOUNT]

  EMAIL     owner@example.com or approver@example.com, whom the identity provider of npm start knows
  ACCOUNT   acct_…, where the person belongs to several

  Prints JSON. Exit status: 0 signed in, 1 failed, 2 the command line is wrong.
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

try {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean' } } });
  const [email, accountId, ...more] = positionals;
  if (values.help) {
    process.stdout.write(usage);
  } else if (email === undefined || more.length > 0) {
    process.stderr.write(usage);
    process.exitCode = 2;
  } else {
    const tokens = await signInAt({ baseUrl: readDevFile().base_url, email, ...(accountId && { accountId }) });
    process.stdout.write(`${JSON.stringify(tokens, null, 2)}\n`);
  }
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1;
}
