import { z } from 'zod';
import { canonicalDecimal, isDecimal, maxAmountLength } from '../../shared/domain/money.ts';
import type { PolicyType } from '../../shared/domain/policy/types.ts';
import { faultOf, instant, listOf, pageParameters } from './common.ts';
import { amountPattern } from './transactions.ts';

/** A limit in units of the token that is sent; answered in canonical form. */
const limit = z
  .string()
  .refine(
    isDecimal,
    faultOf(
      'invalid_amount',
      'must be a plain decimal string such as "100": no sign, exponent, spaces or leading zeros.',
    ),
  )
  .refine(
    (value) => !isDecimal(value) || canonicalDecimal(value) !== '0',
    faultOf('invalid_amount', 'must be more than zero: a limit of zero lets nothing pass.'),
  )
  .meta({
    description: 'Decimal string, more than zero, in units of the token that is sent. `amount <= limit` passes.',
    example: '100',
    pattern: amountPattern,
    maxLength: maxAmountLength,
  })
  .transform(canonicalDecimal);

const spendingLimitRules = z.strictObject({ max_transaction_amount: limit }).meta({
  id: 'SpendingLimitRules',
  outputId: 'SpendingLimitRulesAnswered',
  description: 'Highest amount of a single payment.',
});

/** The closed table of what can be written: rules by type. */
const rulesSchemas = { spending_limit: spendingLimitRules } satisfies Record<PolicyType, z.ZodObject>;

const agentId = z
  .string()
  .meta({ description: 'Agent whose payments are judged.', example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' });

const bodyOf = <T extends PolicyType>(type: T) =>
  z.strictObject({ agent_id: agentId, type: z.literal(type), rules: rulesSchemas[type] });

const available = Object.keys(rulesSchemas).join(', ');

export const createPolicyBody = z.discriminatedUnion('type', [bodyOf('spending_limit')], {
  error: `must be one of the types that are available: ${available}.`,
});

/** PUT: which rules are meant follows from the policy's type. */
export const replaceRulesBody = z.strictObject({ rules: z.union([rulesSchemas.spending_limit]) });
export const replaceRulesBodyFor = (type: PolicyType): typeof replaceRulesBody =>
  z.strictObject({ rules: z.union([rulesSchemas[type]]) });

export const listPoliciesQuery = z.strictObject({
  ...pageParameters,
  agent_id: z.string().optional().meta({ description: 'Only policies of this agent.' }),
});

const policyId = z.string().meta({ description: 'Identifier, `pol_…`.', example: 'pol_01kahvd1r0fv2t5c7m4y2q8s3z' });

export const policy = z
  .object({
    id: policyId,
    agent_id: agentId,
    type: z.enum(Object.keys(rulesSchemas) as [PolicyType, ...PolicyType[]]),
    rules: z.union([z.object({ max_transaction_amount: z.string().meta({ example: '100' }) })]),
    created_at: instant,
    updated_at: instant,
  })
  .meta({ id: 'Policy' });

export const policyList = listOf(policy, 'Policy');

export const deletedPolicy = z.object({ id: policyId, deleted: z.literal(true) }).meta({ id: 'DeletedPolicy' });
