import { z } from 'zod';
import { byOperator } from '../../shared/db/audit.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { readNetwork } from '../../shared/domain/networks.ts';
import { plans } from '../../shared/domain/plans.ts';
import { openAccount } from '../../shared/open-account.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { setAccount } from '../operations/set-account.ts';
import { operatorName } from '../operator-name.ts';
import { maxNetworks } from '../schemas/account.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';
import { accountOption, emailOption, textOption } from './options.ts';

const owner = emailOption('--owner', { use: 'whose account it is' });

const createOptions = z.object({
  name: textOption('--name', { use: 'the name of the account', maxLength: 128 }),
  plan: z.enum(plans, { error: `--plan must be one of ${plans.join(', ')}.` }).default('enterprise'),
  owner: owner.optional(),
  'owner-key': z
    .string()
    .regex(/^[A-Za-z0-9_-]{43}$/, {
      error:
        '--owner-key must be the public half of an owner’s key: 43 characters, as signers owner-key new prints it.',
    })
    .optional(),
});

const networks = z.string().transform((list, context) => {
  if (list === 'off') return [];
  const found = new Set<string>();
  for (const given of list.split(',').map((each) => each.trim())) {
    const read = readNetwork(given);
    if ('network' in read) found.add(read.network);
    else context.addIssue({ code: 'custom', message: `--ip-allowlist: ${JSON.stringify(given)} ${read.wrong}.` });
  }
  if (found.size > maxNetworks)
    context.addIssue({ code: 'custom', message: `--ip-allowlist has more than ${maxNetworks} networks.` });
  return [...found];
});

const setOptions = z
  .object({
    id: accountOption('--id'),
    'default-deny': z.enum(['on', 'off'], { error: '--default-deny must be on or off.' }).optional(),
    owner: owner.optional(),
    'policy-writes': z.enum(['any', 'bearer'], { error: '--policy-writes must be any or bearer.' }).optional(),
    'ip-allowlist': networks.optional(),
  })
  .refine(({ id: _id, ...settings }) => Object.values(settings).some((value) => value !== undefined), {
    error: 'There is nothing to set: give --default-deny, --owner, --policy-writes or --ip-allowlist.',
  });

export const accountCommands: Commands = {
  'account create': {
    options: { name: 'NAME', plan: plans.join('|'), owner: 'EMAIL', 'owner-key': 'PUBLIC' },
    required: ['name'],
    prepare(values) {
      const { name, plan, owner: ownerEmail, 'owner-key': ownerKey } = createOptions.parse(values);
      return ({ pool, config: { environment } }) =>
        inTransaction(pool, async (db) => {
          const acting = byOperator(operatorName());
          const whose = {
            ...(ownerEmail !== undefined && { ownerEmail }),
            ...(ownerKey !== undefined && { ownerKey }),
          };
          const opened = await openAccount(db, { name, plan, ...whose, keyName: 'first key', environment, acting });
          return { account_id: opened.accountId, api_key_id: opened.keyId, api_key: opened.key };
        });
    },
  },
  'account set': {
    options: {
      id: 'acct_…',
      'default-deny': 'on|off',
      owner: 'EMAIL',
      'policy-writes': 'any|bearer',
      'ip-allowlist': 'CIDR,…|off',
    },
    required: ['id'],
    optionOf: { ip_allowlist: '--ip-allowlist' },
    prepare(values) {
      const { id, owner: owner_email, ...given } = setOptions.parse(values);
      const choice = given['default-deny'];
      const change = {
        owner_email,
        default_deny: choice === undefined ? undefined : choice === 'on',
        policy_writes: given['policy-writes'],
        ip_allowlist: given['ip-allowlist'],
      };
      return async ({ pool }) => {
        const account = await setAccount(pool, { id, change, acting: byOperator(operatorName()), from: null });
        if (!account) throw new UsageError(`There is no account ${id}.`);
        const { id: account_id, default_deny, owner_email, policy_writes, ip_allowlist } = renderAccount(account);
        return { account_id, default_deny, owner_email, policy_writes, ip_allowlist };
      };
    },
  },
};
