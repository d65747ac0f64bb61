import { z } from 'zod';
import { scopes as allScopes, type Scope } from '../../shared/domain/access.ts';
import { instant, listOf, optional, pageParameters, text } from './common.ts';

const keyId = z.string().meta({ description: 'Identifier, `key_…`.', example: 'key_01kahvd1r0fv2t5c7m4y2q8s3z' });
const agentId = 'agent_01kahvd1r0fv2t5c7m4y2q8s3z';
const scope = z.enum(allScopes);

/** Faults named at most in one sentence, and characters of each. */
const maxNamed = 5;
const maxNameLength = 64;

/** Scopes in the order in which they are documented, each once; or what is wrong with them. */
export function readScopes(given: readonly string[]): { scopes: readonly Scope[] } | { fault: string } {
  const unknown = given.filter((name) => !(allScopes as readonly string[]).includes(name));
  if (given.length === 0) return { fault: 'must name at least one scope. Leave it out for all of them.' };
  if (unknown.length === 0) return { scopes: allScopes.filter((name) => given.includes(name)) };
  const named = unknown.slice(0, maxNamed).map((name) => JSON.stringify(name.slice(0, maxNameLength)));
  const others = unknown.length > maxNamed ? ` and ${unknown.length - maxNamed} more` : '';
  return { fault: `names unknown scopes: ${named.join(', ')}${others}. Known are: ${allScopes.join(', ')}.` };
}

const scopes = z
  .array(z.string())
  .transform((given, context): readonly Scope[] => {
    const read = readScopes(given);
    if ('scopes' in read) return read.scopes;
    context.addIssue({ code: 'custom', message: read.fault });
    return z.NEVER;
  })
  .meta({
    description:
      'What the key may do. `…:write` includes `…:read`; repeats are merged. Left out: everything that such a key can be allowed, also what later versions add. A key of one agent takes only those that such a key can use.',
    example: ['transactions:write', 'x402:write'],
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      Object.assign(jsonSchema, { minItems: 1, items: { enum: [...allScopes], type: 'string' } });
    },
  });

/** RFC 3339, 5.6, in the capitals that everybody writes. */
const timestampShape = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;
const timestamp = z.iso.datetime({ offset: true });

const expiresAt = z
  .string()
  .transform((given, context) => {
    const isTimestamp = timestampShape.test(given) && timestamp.safeParse(given).success;
    const instant = new Date(isTimestamp ? given : Number.NaN);
    if (instant.getUTCFullYear() <= 9999) return instant;
    context.addIssue({
      code: 'custom',
      message: 'must be an instant in RFC 3339, with Z or an offset, such as "2027-01-01T00:00:00Z".',
    });
    return z.NEVER;
  })
  .meta({
    description: 'When the key ends by itself; RFC 3339, in the future. Left out: it does not.',
    example: '2030-01-01T00:00:00Z',
    format: 'date-time',
  });

export const createApiKeyBody = z.strictObject({
  name: text({
    minLength: 1,
    maxLength: 128,
    description: 'What the key is for; it need not be unique.',
    example: 'research agent, production',
  }),
  scopes: optional(scopes),
  agent_id: optional(
    z.string().meta({
      description:
        'Binds the key to one agent: it sees that agent and what belongs to it, pays and uses x402 sessions, and changes nothing that guards payments. Give agents only such keys.',
      example: agentId,
    }),
  ),
  expires_at: optional(expiresAt),
});
export type CreateApiKeyBody = z.output<typeof createApiKeyBody>;

export const listApiKeysQuery = z.strictObject(pageParameters);

const ofKey = {
  prefix: z.string().meta({ description: 'The key, masked.', example: 'purser_test_3fGh…' }),
  scopes: z.array(scope).meta({
    description:
      'What the key may do. Where none were named: everything that such a key can be allowed, which grows with the service.',
    example: ['transactions:write', 'x402:write'],
  }),
  agent_id: z.string().nullable().meta({ description: 'The one agent that it is bound to.', example: agentId }),
  expires_at: instant.nullable().meta({ description: 'Null: it does not expire.', example: null }),
  created_at: instant,
  last_used_at: instant.nullable().meta({
    description: 'Its last request, to the minute; null: there was none.',
    example: null,
  }),
};
const name = z.string().meta({ example: 'research agent, production' });

const apiKey = z
  .object({
    id: keyId,
    name,
    ...ofKey,
    warning: z.string().nullable().meta({
      description: 'Why the key should be replaced: it is more than 90 days old. Null otherwise.',
      example: null,
    }),
  })
  .meta({ id: 'ApiKey', description: 'A key of the account; never the key itself.' });

export const apiKeyList = listOf(apiKey, 'ApiKey');

export const createdApiKey = z
  .object({
    id: keyId,
    name,
    key: z.string().meta({
      description: 'The key itself. It is shown this once, and kept nowhere: store it now.',
      example: 'purser_test_…',
    }),
    ...ofKey,
  })
  .meta({ id: 'CreatedApiKey' });

export const deletedApiKey = z
  .object({ id: keyId, deleted: z.literal(true) })
  .meta({ id: 'DeletedApiKey', description: 'What was deleted.' });
