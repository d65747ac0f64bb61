import { z } from 'zod';
import type { ZodOpenApiOverrideMetaContext } from 'zod-openapi';
import { type PolicyType, policyKinds } from '../../shared/domain/policy/engine.ts';
import type { RuleWords } from '../../shared/domain/policy/types.ts';
import { instant, listOf, pageParameters } from './common.ts';

const types = Object.keys(policyKinds) as [PolicyType, ...PolicyType[]];

const agentId = z
  .string()
  .meta({ description: 'Agent whose payments are judged.', example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' });

/** Rules as they are kept. */
export type Rules = Record<string, unknown>;

/** The rules of a type as they are written. */
function rulesFor(type: PolicyType, words: RuleWords): z.ZodType<Rules> {
  const { rules, description } = policyKinds[type];
  return (rules(words) as z.ZodType<Rules>).meta({ description });
}

/** The same in requests, where a member that may be left out may be null as well. */
const requestedRules = (type: PolicyType, words: RuleWords) => rulesFor(type, words).meta({ override: allowNulls });

function allowNulls({ jsonSchema }: ZodOpenApiOverrideMetaContext): void {
  for (const [name, member] of Object.entries(jsonSchema.properties ?? {})) {
    if (jsonSchema.required?.includes(name)) continue;
    if (typeof member !== 'object' || typeof member.type !== 'string' || member.enum)
      throw new Error(`${name} has no type that null could be added to.`);
    member.type = [member.type, 'null'] as unknown as typeof member.type;
  }
}

/** What is asked of the body of a policy, where its members beside type and rules are these. */
function typedBody<Shape extends z.ZodRawShape>(shape: Shape, words: RuleWords) {
  const bodyOf = (type: PolicyType) =>
    z.strictObject({ ...shape, type: z.literal(type), rules: requestedRules(type, words) }).meta({ title: type });
  const [first, ...others] = types;
  return z.discriminatedUnion('type', [bodyOf(first), ...others.map(bodyOf)], {
    error: `must be one of the types that are available: ${types.join(', ')}.`,
  });
}

/** A policy that belongs to no agent: its type and its rules. */
export function createTypedRulesSchema(words: RuleWords) {
  return typedBody({}, words);
}

export function createPolicyBodies(words: RuleWords) {
  const replacing = (rules: z.ZodType<Rules>) => z.strictObject({ rules });
  const byType = Object.fromEntries(types.map((type) => [type, replacing(requestedRules(type, words))])) as Record<
    PolicyType,
    ReturnType<typeof replacing>
  >;
  return {
    /** POST: the type says which rules are meant. */
    create: typedBody({ agent_id: agentId }, words),
    /** PUT: which rules are meant follows from the policy's type. */
    replace: replacing(z.union(types.map((type) => requestedRules(type, words)))),
    replaceFor: (type: PolicyType) => byType[type],
  };
}

export const listPoliciesQuery = z.strictObject({
  ...pageParameters,
  agent_id: z.string().optional().meta({ description: 'Only policies of this agent.' }),
});

const policyId = z.string().meta({ description: 'Identifier, `pol_…`.', example: 'pol_01kahvd1r0fv2t5c7m4y2q8s3z' });

/** Rules in answers are in their written form already, whatever the chain. */
const answeredWords: RuleWords = {
  address: z.string().meta({ example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF' }),
  token: z.string().meta({ example: 'USDC' }),
};

const policyOf = (type: PolicyType) =>
  z
    .object({
      id: policyId,
      agent_id: agentId,
      type: z.literal(type),
      rules: rulesFor(type, answeredWords),
      created_at: instant,
      updated_at: instant,
    })
    .meta({ title: type });

export const policy = z
  .discriminatedUnion('type', [policyOf(types[0]), ...types.slice(1).map(policyOf)])
  .meta({ id: 'Policy' });

export const policyList = listOf(policy, 'Policy');

export const deletedPolicy = z.object({ id: policyId, deleted: z.literal(true) }).meta({ id: 'DeletedPolicy' });
