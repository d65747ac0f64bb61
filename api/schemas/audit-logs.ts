import { z } from 'zod';
import type { ZodOpenApiOverrideMetaContext } from 'zod-openapi';
import { instant, listOf, pageParameters } from './common.ts';
import { idParameter, timeRange, withTimeRange } from './time-range.ts';

const results = ['success', 'denied', 'error'] as const;

/** A parameter by a pattern, which is what it says in the reference too. */
function matching(
  pattern: RegExp,
  { description, example, error }: Record<'description' | 'example' | 'error', string>,
) {
  return z.string().regex(pattern, { error }).optional().meta({ description, example });
}

export const listAuditLogsQuery = withTimeRange(
  z.strictObject({
    ...pageParameters,
    action: matching(/^[a-z0-9_]{1,64}\.[a-z_]{1,64}$/, {
      description: 'Only entries of this action.',
      example: 'policy.updated',
      error: 'an action is resource.verb in the past, such as policy.updated',
    }),
    actor_id: z
      .string()
      .refine((text) => /^[^\p{Cc}\p{Cs}]{1,256}$/u.test(text), {
        error: '1 to 256 characters without control characters',
      })
      .optional()
      .meta({
        description: 'Only what this API key, this user or this approver did.',
        example: 'key_01kahvd1r0fv2t5c7m4y2q8s3z',
        // The same in words that every reader of patterns knows: not all have classes of Unicode.
        pattern: '^[^\\x00-\\x1f\\x7f-\\x9f]{1,256}$',
      }),
    resource_type: matching(/^[a-z0-9_]{1,64}$/, {
      description: 'Only what was done to this kind of resource.',
      example: 'policy',
      error: 'a kind of resource is a word such as policy or x402_session',
    }),
    resource_id: idParameter('Only what was done to this resource.'),
    agent_id: idParameter('Only what this agent had a part in; also one that was deleted.'),
    result: z.enum(results).optional().meta({ description: 'Only entries with this result.', example: 'denied' }),
    ...timeRange,
  }),
);

const hash = z.string().meta({
  description: 'SHA-256, 64 hexadecimal digits.',
  example: 'df0f09a82b4ef41ff72f5b5ff3af5dac40feff57ffa907ec6a6ecb8de1335bc9',
});
const seq = z.int().min(1).meta({ description: 'Place in the chain of the account, from 1.', example: 1 });

export const auditEntry = z
  .object({
    id: z.string().meta({ description: 'Identifier, `aud_…`.', example: 'aud_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    seq,
    action: z.string().meta({ description: '`resource.verb` in the past.', example: 'policy.updated' }),
    actor: z
      .object({
        type: z.enum(['user', 'api_key', 'approver', 'system']).meta({ example: 'user' }),
        id: z.string().nullable().meta({ example: 'key_01kahvd1r0fv2t5c7m4y2q8s3z' }),
        name: z.string().nullable().meta({ description: 'As it was then.', example: 'ops@example.com' }),
      })
      .meta({ description: 'Who did it.' }),
    resource: z
      .object({ type: z.string().meta({ example: 'policy' }), id: z.string().nullable().meta({ example: 'pol_01…' }) })
      .meta({ description: 'What it was done to.' }),
    agent_id: z.string().nullable().meta({ example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    result: z.enum(results).meta({ example: 'success' }),
    ip_address: z.string().nullable().meta({ description: 'From where.', example: '203.0.113.7' }),
    user_agent: z.string().nullable().meta({ description: 'As the client named itself.', example: 'curl/8.9' }),
    request_id: z.string().nullable().meta({ example: '0b1d9f0e-6c1f-4f2d-9d3c-0b7f7c4b8a11' }),
    changes: z
      .object({ before: z.unknown(), after: z.unknown() })
      .nullable()
      .meta({ description: 'What was and what is now, where something was changed.' }),
    metadata: z.record(z.string(), z.unknown()).meta({ description: 'More about it, by action.' }),
    prev_hash: hash.meta({ description: '`hash` of the entry before; 64 zeros for the first one.' }),
    hash: hash.meta({
      description:
        'SHA-256 in hexadecimal of the 64 characters of `prev_hash`, followed by the canonical JSON (RFC 8785) of this entry without `hash`.',
    }),
    created_at: instant,
  })
  .meta({ id: 'AuditEntry', description: 'Who did what, with what result.' });

export const auditEntryList = listOf(auditEntry, 'AuditEntry');

export const auditHead = z
  .object({
    seq: z.int().min(0).meta({ description: 'Number of the last entry; 0 before there is one.', example: 42 }),
    hash,
    created_at: instant.nullable().meta({ description: 'Of the last entry.' }),
    sealed_at: instant.nullable().meta({ description: 'When the last entry got its place.' }),
    unsealed: z
      .object({
        count: z.int().min(0).meta({ example: 0 }),
        oldest_created_at: instant.nullable().meta({ description: 'Since when the first of them waits.' }),
      })
      .meta({ description: 'Entries that are written and have no place in the chain yet.' }),
  })
  .meta({ id: 'AuditHead', description: 'Where the chain ends.' });

/** Numbers that are exact everywhere. */
const maxSeq = Number.MAX_SAFE_INTEGER;
/** Entries that one request has checked at most: a few seconds of work. */
export const maxChecked = 100_000;

function seqParameter({ description, max = maxSeq }: { description: string; max?: number }) {
  return z
    .string()
    .refine((value) => /^[1-9]\d{0,15}$/.test(value) && Number(value) <= max, {
      error: `must be a whole number from 1 to ${max}.`,
    })
    .transform(Number)
    .optional()
    .meta({
      description,
      override: ({ jsonSchema }: ZodOpenApiOverrideMetaContext) => {
        for (const key of Object.keys(jsonSchema)) delete jsonSchema[key as keyof typeof jsonSchema];
        Object.assign(jsonSchema, { type: 'integer', minimum: 1, maximum: max, description });
      },
    });
}

export const verifyAuditQuery = z
  .strictObject({
    from_seq: seqParameter({ description: 'Go on from this entry: `next_seq` of the answer before.' }),
    limit: seqParameter({ description: `Entries to check, at most; ${maxChecked} if absent.`, max: maxChecked }),
    head_seq: seqParameter({
      description: '`seq` of a head that was noted before: the chain has to go through it. Needs `head_hash`.',
    }),
    head_hash: matching(/^[0-9a-f]{64}$/, {
      description: '`hash` of that head. Needs `head_seq`.',
      example: 'df0f09a82b4ef41ff72f5b5ff3af5dac40feff57ffa907ec6a6ecb8de1335bc9',
      error: 'a hash is 64 hexadecimal digits in lower case',
    }),
  })
  .superRefine(({ head_seq, head_hash }, context) => {
    if ((head_seq === undefined) === (head_hash === undefined)) return;
    const [missing, given] = head_seq === undefined ? ['head_seq', 'head_hash'] : ['head_hash', 'head_seq'];
    context.addIssue({ code: 'custom', path: [missing], message: `is required with ${given}.` });
  });

export const exportAuditQuery = z
  .strictObject({
    from_seq: seqParameter({ description: 'First entry; the first that is kept if absent.' }),
    to_seq: seqParameter({ description: 'Last entry; the last there is at the time of the request if absent.' }),
  })
  .superRefine(({ from_seq, to_seq }, context) => {
    if (from_seq !== undefined && to_seq !== undefined && from_seq > to_seq)
      context.addIssue({ code: 'custom', path: ['from_seq'], message: 'must not be more than to_seq.' });
  });

const place = z.object({ seq: z.int().min(1), hash });

export const auditVerification = z
  .object({
    valid: z
      .boolean()
      .meta({ description: 'Whether everything that was checked is as it was written.', example: true }),
    checked: z.int().min(0).meta({ description: 'Entries that are whole, from the first one on.', example: 42 }),
    head_hash: hash.meta({
      description: '`hash` of the last of them; where `complete` and `valid`, that of the head. Note it.',
    }),
    broken_at: z.int().nullable().meta({ description: 'Number of the first broken place.', example: null }),
    reason: z
      .enum(['changed', 'missing', 'inserted', 'out_of_order', 'wrong_start', 'unlinked', 'rewritten', 'cut_off'])
      .nullable()
      .meta({
        description:
          '`changed`: the entry does not have its hash. `missing`: there is none with this number. `inserted`: there is one too many. `out_of_order`: it stands after later ones. `wrong_start`: the first entry does not go on from the start. `unlinked`: it says that another one was before it. `rewritten`: it is not the one that was noted, by you or as the head. `cut_off`: the chain ends before a head that it had.',
        example: null,
      }),
    from_seq: z.int().meta({ description: 'First entry that was to be checked.', example: 1 }),
    to_seq: z
      .int()
      .meta({ description: 'Last entry that is whole; one less than `from_seq` if none is.', example: 42 }),
    complete: z.boolean().meta({ description: 'Whether the end of the chain was reached.', example: true }),
    next_seq: z.int().nullable().meta({ description: 'Where to go on, if it was not.', example: null }),
    checkpoint: place.nullable().meta({
      description:
        'The last entry that retention has taken away, which the first one that is kept goes on from; null while all are kept.',
      example: null,
    }),
  })
  .meta({ id: 'AuditVerification' });
