// `npm run admin -- account create|set …`, `… approval approve|reject …`: what an operator does with the database at hand.
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { type AdminConfig, adminConfig, ConfigError } from '../shared/config.ts';
import { byOperator } from '../shared/db/audit.ts';
import { createPool, inTransaction, type Pool } from '../shared/db/pool.ts';
import { isId } from '../shared/ids.ts';
import { openAccount } from '../shared/open-account.ts';
import { prepareDecision } from './admin-approval.ts';
import { setAccount } from './operations/set-account.ts';
import { operatorName } from './operator-name.ts';
import { UsageError } from './usage-error.ts';

const usage = `Usage: npm run admin -- account create --name NAME [--plan starter|growth|enterprise]
       npm run admin -- account set --id acct_… [--default-deny on|off] [--owner EMAIL]
       npm run admin -- approval approve|reject ID --as EMAIL --reason TEXT

  create makes an account and its first API key, and prints both as JSON; the key is shown this once only.
  The account's signing key is made by the three signers when its first agent is created.

  set changes the settings that are given and prints all of them as JSON.
  --default-deny on: a payment of an agent without any policy is denied.
  --owner: whom the built-in policy templates ask for approval.

  approve and reject decide the approval ID (apr_…) for one of its approvers, who cannot, and print it as JSON. The audit
  log names you and the reason. In production only with PURSER_OPERATOR_APPROVALS=on.

  Needs DATABASE_URL and PURSER_ENV, as the api has them; with TEMPORAL_ADDRESS the payment is told at once.
`;

/** Longest e-mail address (RFC 5321, 4.5.3.1.3, less the angle brackets). */
const maxEmailLength = 254;

const createOptions = z.object({
  name: z
    .string({ error: '--name is missing: the name of the account.' })
    .trim()
    .min(1, '--name is empty.')
    .max(128, '--name has more than 128 characters.'),
  plan: z
    .enum(['starter', 'growth', 'enterprise'], { error: '--plan must be starter, growth or enterprise.' })
    .default('enterprise'),
});

const setOptions = z
  .object({
    id: z
      .string({ error: '--id is missing: the account, acct_….' })
      .refine((id) => isId('acct', id), '--id is no identifier of an account: it begins with acct_.'),
    'default-deny': z.enum(['on', 'off'], { error: '--default-deny must be on or off.' }).optional(),
    owner: z
      .email({ error: '--owner must be an e-mail address.' })
      .max(maxEmailLength, `--owner has more than ${maxEmailLength} characters.`)
      .toLowerCase()
      .optional(),
  })
  .refine(({ owner, 'default-deny': defaultDeny }) => owner !== undefined || defaultDeny !== undefined, {
    error: 'There is nothing to set: give --default-deny, --owner or both.',
  });

type Work = (deps: { pool: Pool; config: AdminConfig }) => Promise<unknown>;

interface Command {
  /** Its options, each with a value. */
  readonly names: readonly string[];
  /** Name of the argument that it takes beside them, if it takes one. */
  readonly positional?: string;
  readonly prepare: (values: unknown) => Work;
}

/** What each command takes, and how that becomes work. */
const commands: Readonly<Record<string, Command>> = {
  'account create': {
    names: ['name', 'plan'],
    prepare(values) {
      const { name, plan } = createOptions.parse(values);
      return ({ pool, config: { environment } }) =>
        inTransaction(pool, async (db) => {
          const acting = byOperator(operatorName());
          const opened = await openAccount(db, { name, plan, keyName: 'first key', environment, acting });
          return { account_id: opened.accountId, api_key_id: opened.keyId, api_key: opened.key };
        });
    },
  },
  'account set': {
    names: ['id', 'default-deny', 'owner'],
    prepare(values) {
      const { id, owner, 'default-deny': choice } = setOptions.parse(values);
      const defaultDeny = choice === undefined ? undefined : choice === 'on';
      return async ({ pool }) => {
        const acting = byOperator(operatorName());
        const change = { default_deny: defaultDeny, owner_email: owner };
        const account = await setAccount(pool, { id, change, acting, from: null });
        if (!account) throw new UsageError(`There is no account ${id}.`);
        return { account_id: account.id, default_deny: account.default_deny, owner_email: account.owner_email };
      };
    },
  },
  'approval approve': {
    names: ['as', 'reason'],
    positional: 'id',
    prepare: (values) => prepareDecision('approved', values),
  },
  'approval reject': {
    names: ['as', 'reason'],
    positional: 'id',
    prepare: (values) => prepareDecision('rejected', values),
  },
};

function readCommand(args: string[]): Work {
  try {
    const name = args.slice(0, 2).join(' ');
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (!command) throw new UsageError(usage);
    const options = Object.fromEntries(command.names.map((name) => [name, { type: 'string' as const }]));
    const { positional } = command;
    const { values, positionals } = parseArgs({
      args: args.slice(2),
      options,
      allowPositionals: positional !== undefined,
    });
    if (positionals.length > 1) throw new UsageError(usage);
    return command.prepare(positional === undefined ? values : { ...values, [positional]: positionals[0] });
  } catch (error) {
    if (error instanceof z.ZodError) throw new UsageError(error.issues.map(({ message }) => message).join('\n'));
    if ((error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS'))
      throw new UsageError(`${(error as Error).message}\n\n${usage}`);
    throw error;
  }
}

async function main(): Promise<void> {
  const work = readCommand(process.argv.slice(2));
  const config = adminConfig(process.env);
  const pool = createPool({ ...config.database, application: 'purser-admin' });
  try {
    console.log(JSON.stringify(await work({ pool, config }), null, 2));
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
