import { z } from 'zod';
import { type PolicyType, policyKinds } from '../../shared/domain/policy/engine.ts';
import type { RuleWords } from '../../shared/domain/policy/types.ts';
import { isBuiltIn } from '../../shared/domain/policy-templates.ts';
import { maxPolicies } from '../operations/attach-policies.ts';
import { instant, listOf, optional, pageParameters, text } from './common.ts';
import { createTypedRulesSchema, policy } from './policies.ts';

const name = text({
  minLength: 1,
  maxLength: 128,
  description: 'Unique within the account (case counts, after Unicode NFC), and not the name of a built-in template.',
  example: 'research-team',
}).refine((value) => !isBuiltIn(value), { error: 'is the name of a built-in template. Choose another one.' });

const description = optional(
  text({
    maxLength: 1024,
    multiline: true,
    description: 'What the template is for.',
    example: 'What every agent of the research team gets.',
  }),
);

/** Body of POST and PUT; rules are the same as those of a policy. */
export function createTemplateBody({ words }: { words: RuleWords }) {
  return z.strictObject({
    name,
    description,
    policies: z
      .array(createTypedRulesSchema(words))
      .refine((list) => list.length > 0, { error: 'must have at least one policy.' })
      .refine((list) => list.length <= maxPolicies, {
        error: `must have at most ${maxPolicies} policies: an agent may not have more.`,
      })
      .meta({
        description: 'Copied to an agent in this order.',
        minItems: 1,
        maxItems: maxPolicies,
      }),
  });
}

export const applyTemplateBody = z.strictObject({
  agent_id: z
    .string()
    .meta({ description: 'Agent that gets the policies.', example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' }),
  mode: z.enum(['append', 'replace']).meta({
    description: '`append` adds to the policies that the agent has; `replace` deletes those.',
    example: 'replace',
  }),
});
export type ApplyTemplateBody = z.output<typeof applyTemplateBody>;

export const listTemplatesQuery = z.strictObject(pageParameters);

const templateId = z.string().meta({
  description: 'Identifier, `ptpl_…`; that of a built-in template never changes.',
  example: 'ptpl_01kahvd1r0fv2t5c7m4y2q8s3z',
});

/** Looser than a policy's own rules: a built-in template may lack its approvers. */
const answeredPolicy = z.object({
  type: z.enum(Object.keys(policyKinds) as [PolicyType, ...PolicyType[]]),
  rules: z.record(z.string(), z.unknown()).meta({
    description: 'As those of a policy of this type.',
    example: { max_transaction_amount: '50', token: 'stablecoins' },
  }),
});

export const template = z
  .object({
    id: templateId,
    name: z.string().meta({ example: 'research-team' }),
    description: z.string().nullable().meta({ example: 'What every agent of the research team gets.' }),
    built_in: z.boolean().meta({
      description: 'Whether it is part of the service: found by its name, too, and read-only.',
      example: false,
    }),
    policies: z.array(answeredPolicy).meta({
      description:
        'What an agent gets. A built-in template that needs approval names the account’s owner; its list of approvers is empty while that is not known.',
    }),
    created_at: instant,
    updated_at: instant,
  })
  .meta({ id: 'PolicyTemplate' });

export const templateList = listOf(template, 'PolicyTemplate');

export const appliedPolicies = z
  .object({ data: z.array(policy).meta({ description: 'The new policies, in the order of the template.' }) })
  .meta({ id: 'AppliedPolicies' });

export const deletedTemplate = z
  .object({ id: templateId, deleted: z.literal(true) })
  .meta({ id: 'DeletedPolicyTemplate' });
