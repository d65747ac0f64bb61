// `npm run admin -- account create --name NAME [--plan PLAN]`: what an operator does with the database at hand.
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { adminConfig, ConfigError } from '../shared/config.ts';
import { createAccount } from '../shared/db/accounts.ts';
import { createApiKey } from '../shared/db/api-keys.ts';
import { createPool, inTransaction } from '../shared/db/pool.ts';

const usage = `Usage: npm run admin -- account create --name NAME [--plan starter|growth|enterprise]

  Makes an account and its first API key, and prints both as JSON; the key is shown this once only.
  The account's signing key is made by the three signers when its first agent is created.

  Needs DATABASE_URL and PURSER_ENV, as the api has them.
`;

const options = z.object({
  name: z
    .string({ error: '--name is missing: the name of the account.' })
    .trim()
    .min(1, '--name is empty.')
    .max(128, '--name has more than 128 characters.'),
  plan: z
    .enum(['starter', 'growth', 'enterprise'], { error: '--plan must be starter, growth or enterprise.' })
    .default('enterprise'),
});

/** A mistake of the one at the console: told as it is, without a stack. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

function readCommand(args: string[]): z.output<typeof options> {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { name: { type: 'string' }, plan: { type: 'string' } },
    });
    if (positionals.join(' ') !== 'account create') throw new UsageError(usage);
    return options.parse(values);
  } catch (error) {
    if (error instanceof z.ZodError) throw new UsageError(error.issues.map(({ message }) => message).join('\n'));
    if ((error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS'))
      throw new UsageError(`${(error as Error).message}\n\n${usage}`);
    throw error;
  }
}

async function main(): Promise<void> {
  const { name, plan } = readCommand(process.argv.slice(2));
  const { environment, database } = adminConfig(process.env);
  const pool = createPool({ ...database, application: 'purser-admin' });
  try {
    const made = await inTransaction(pool, async (db) => {
      const accountId = await createAccount(db, { name, plan });
      const { id, key } = await createApiKey(db, { accountId, name: 'first key', environment });
      return { account_id: accountId, api_key_id: id, api_key: key };
    });
    console.log(JSON.stringify(made, null, 2));
  } finally {
    await pool.end();
  }
}

try {
  await main();
} catch (error) {
  const told = error instanceof UsageError || error instanceof ConfigError || 'code' in (error as object);
  console.error(told ? (error as Error).message || String((error as { code?: string }).code) : error);
  process.exit(1);
}
