import { z } from 'zod';

const told = z.string().nullable();
const limitFacts = {
  limit: told.meta({ description: "The rule's value; null where it is a list.", example: '500' }),
  used: told.meta({ description: "Consumed in the rule's window; null for rules that do not count.", example: '420' }),
  remaining: told.meta({ description: "Free in the rule's window; null for rules that do not count.", example: '80' }),
  token: z.string().meta({ example: 'USDC' }),
  resets_at: told.meta({
    description: 'When the window next frees something; null where waiting frees nothing.',
    example: null,
  }),
};

/** One broken rule. */
const violation = z
  .object({
    policy_id: told.meta({
      description: 'Null where no policy but the account or the balance is in the way.',
      example: null,
    }),
    policy_type: told.meta({ example: 'spending_limit' }),
    rule: z
      .string()
      .meta({ description: 'Member of `rules`, or `balance`, `default_deny`, `engine`.', example: 'daily_limit' }),
    attempted: z.string().meta({ description: 'What the payment asks for.', example: '100' }),
    ...limitFacts,
  })
  .meta({ id: 'Violation' });

const warning = z.object({
  code: z.enum(['limit_without_token', 'chain_unavailable', 'simulation_failed', 'frozen']).meta({
    description:
      'limit_without_token: a policy names no token. chain_unavailable: neither fee nor balance were looked at. simulation_failed: the chain says that the transfer would fail. frozen: the payment would be taken, and wait until the freeze is lifted.',
    example: 'limit_without_token',
  }),
  policy_id: told.meta({ example: null }),
  message: z.string().meta({ example: 'The limits of this policy name no token, so they were read in ETH.' }),
});

/** Warnings of a stored payment. */
export const warnings = z.array(warning);

export const simulation = z
  .object({
    allowed: z
      .boolean()
      .meta({ description: 'Whether the payment would be sent as things stand, without a person.', example: true }),
    decision: z.enum(['allow', 'require_approval', 'deny']).meta({ example: 'allow' }),
    violations: z
      .array(violation)
      .meta({ description: 'Everything that stands against it; policies first, then the balance.' }),
    headroom: z
      .record(z.string(), z.record(z.string(), z.object(limitFacts)))
      .meta({ description: 'By policy and rule: every limit that applies, before this payment.' }),
    estimated_fee: told.meta({
      description: "The most that the network may charge, in the chain's own coin; null when the chain cannot say.",
      example: '0.00012',
    }),
    warnings: z.array(warning),
  })
  .meta({ id: 'Simulation' });
