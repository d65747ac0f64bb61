import { z } from 'zod';
import { readNetwork } from '../../shared/domain/networks.ts';
import { plans } from '../../shared/domain/plans.ts';
import { emailAddress, instant, optional, text } from './common.ts';
import { freezeMembers, frozenMembers, isReasonAlone, reasonAlone } from './freeze.ts';
import { gasTopUps, gasTopUpsBody } from './gas-top-ups.ts';

/** Networks of an allowlist at most. */
export const maxNetworks = 100;
/** Longest text of one: IPv6 with its length. */
const maxNetworkLength = 49;

const allowlistDescription =
  'Networks (CIDR) from which keys and people may use the account; an address alone is a network of one. Empty: from anywhere.';
const exampleNetworks = ['192.0.2.0/24', '2001:db8::/32'];

const network = z.string().transform((given, context) => {
  const read = readNetwork(given);
  if ('network' in read) return read.network;
  context.addIssue({ code: 'custom', message: `${read.wrong}.` });
  return z.NEVER;
});

const allowlist = z
  .array(network)
  .refine((networks) => networks.length <= maxNetworks, {
    error: `must have at most ${maxNetworks} networks. Write neighbours as one.`,
  })
  .transform((networks) => [...new Set(networks)])
  .meta({
    description: `${allowlistDescription} Plans growth and enterprise only: 403. One that would shut you out: 400. Repeats are merged.`,
    example: exampleNetworks,
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      Object.assign(jsonSchema, { maxItems: maxNetworks, items: { type: 'string', maxLength: maxNetworkLength } });
    },
  });

const policyWrites = z.enum(['any', 'bearer']).meta({
  description:
    '`bearer`: only people who are signed in change policies and templates; `any`: API keys with the scope as well.',
  example: 'bearer',
});
const defaultDeny = z.boolean().meta({
  description: 'Whether a payment of an agent without any policy is denied.',
  example: true,
});

/** Known, so that whoever sends it is told where it is set. */
const readOnlyPlan = z
  .unknown()
  .refine((given) => given === undefined || given === null, {
    error: 'is set by whoever runs this installation, not here. Leave it out.',
  })
  .optional()
  .meta({ description: 'Read-only: 400.', readOnly: true });

export const updateAccountBody = z
  .strictObject({
    name: optional(text({ minLength: 1, maxLength: 128, description: 'Name of the account.', example: 'Acme' })),
    ip_allowlist: optional(allowlist),
    default_deny: optional(defaultDeny),
    policy_writes: optional(policyWrites),
    owner_email: optional(emailAddress('Whom the built-in policy templates ask for approval.')),
    gas_top_ups: optional(gasTopUpsBody),
    ...freezeMembers,
    plan: readOnlyPlan,
  })
  .refine((given) => Object.values(given).some((value) => value !== undefined && value !== null), {
    error:
      'must have at least one of name, ip_allowlist, default_deny, policy_writes, owner_email, gas_top_ups and frozen.',
  })
  .refine((given) => !isReasonAlone(given), reasonAlone)
  .meta({ example: { default_deny: true, policy_writes: 'bearer' } });

const limit = (description: string, example: number) =>
  z
    .int()
    .nullable()
    .meta({ description: `${description} Null: no limit.`, example });
const count = (description: string, example: number) =>
  z.object({ used: z.int().min(0).meta({ example: 1 }), limit: limit('By the plan.', example) }).meta({ description });

export const account = z
  .object({
    id: z.string().meta({ description: 'Identifier, `acct_…`.', example: 'acct_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    name: z.string().meta({ example: 'Acme' }),
    plan: z.enum(plans).meta({ description: 'Set by whoever runs this installation.', example: 'growth' }),
    limits: z
      .object({
        requests_per_minute: limit('In any 60 seconds.', 300),
        requests_per_day: limit('On a day of UTC.', 100_000),
        concurrent_requests: limit('Under way at once.', 25),
      })
      .meta({ description: 'Of each API key, and of each person.' }),
    counts: z
      .object({
        agents: count('Agents.', 100),
        webhooks: count('Webhooks.', 50),
        x402_sessions: count('Active x402 sessions.', 500),
      })
      .meta({ description: 'What the account has, and what it may have.' }),
    ip_allowlist: z.array(z.string()).meta({ description: allowlistDescription, example: exampleNetworks }),
    default_deny: defaultDeny,
    policy_writes: policyWrites,
    owner_email: z.string().nullable().meta({
      description: 'Whom the built-in policy templates ask for approval.',
      example: 'owner@example.com',
    }),
    gas_top_ups: gasTopUps,
    owner_key: z.string().nullable().meta({
      description:
        'Public key (Ed25519) of who sets limits inside the signers, as it was named when the account was made. Null: nobody was. Which one counts now, the signers say: `npm run signers -- limits show`.',
      example: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
    }),
    ...frozenMembers,
    created_at: instant,
  })
  .meta({ id: 'Account' });
