import { z } from 'zod';
import type { ZodOpenApiOverrideMetaContext } from 'zod-openapi';
import { approvalStatuses } from '../../shared/domain/approval.ts';
import { isDecimal, maxAmountLength } from '../../shared/domain/money.ts';
import { normaliseText, type TextFault, type TextRule } from '../../shared/domain/text.ts';
import type { ErrorCode } from '../../shared/errors.ts';

const faultSentences: Readonly<Record<TextFault, (rule: TextRule) => string>> = {
  unpaired_surrogate: () => 'must be well-formed Unicode, without unpaired surrogates.',
  control_character: ({ multiline }) =>
    `must not contain control characters${multiline ? ' other than newline and tab' : ''}.`,
  too_short: ({ minLength }) => `must have at least ${minLength} character.`,
  too_long: ({ maxLength }) => `must have at most ${maxLength} characters (Unicode code points).`,
};

/** Text that people read, brought into NFC. */
export function text({ description, example, ...rule }: TextRule & { description: string; example: string }) {
  const { minLength = 0, maxLength } = rule;
  return z
    .string()
    .meta({ description, example, minLength, maxLength })
    .transform((value, context) => {
      const result = normaliseText(value, rule);
      if ('text' in result) return result.text;
      context.addIssue({ code: 'custom', message: faultSentences[result.fault](rule) });
      return z.NEVER;
    });
}

/** Longest address that mail can be sent to (RFC 5321, 4.5.3.1.3). */
const maxEmailLength = 254;

/** An e-mail address, brought into lower case. */
export function emailAddress(description: string) {
  return z
    .string()
    .overwrite((value) => value.toLowerCase())
    .refine((value) => value.length <= maxEmailLength && z.regexes.email.test(value), {
      error: 'must be an e-mail address such as "ops@example.com".',
    })
    .meta({ description, example: 'ops@example.com', format: 'email', maxLength: maxEmailLength });
}

/** A member that may be left out; `null` says the same. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** Marks a rule that has an error code of its own. */
export function faultOf(code: ErrorCode, message: string) {
  return { error: message, params: { code } };
}

/** A plain decimal of more than zero; whether it fits a token is judged where the token is known. */
const amountPattern = '^(?!0(\\.0+)?$)(0|[1-9]\\d*)(\\.\\d+)?$';

export function amount({ description, example }: { description: string; example: string }) {
  return z
    .string()
    .refine(
      isDecimal,
      faultOf(
        'invalid_amount',
        'must be a plain decimal string such as "12.5": no sign, exponent, spaces or leading zeros.',
      ),
    )
    .meta({ description, example, pattern: amountPattern, maxLength: maxAmountLength });
}

const largestPage = Number.MAX_SAFE_INTEGER;

function integerParameter({ description, fallback, max }: { description: string; fallback: number; max: number }) {
  const error = max === largestPage ? 'must be a whole number from 1 up.' : `must be a whole number from 1 to ${max}.`;
  return z
    .string()
    .default(String(fallback))
    .refine((value) => /^[1-9]\d{0,15}$/.test(value) && Number(value) <= max, { error })
    .transform(Number)
    .meta({
      description,
      override: ({ jsonSchema }: ZodOpenApiOverrideMetaContext) => {
        for (const key of Object.keys(jsonSchema)) delete jsonSchema[key as keyof typeof jsonSchema];
        Object.assign(jsonSchema, { type: 'integer', minimum: 1, maximum: max, default: fallback, description });
      },
    });
}

/** Query parameters of every list. */
export const pageParameters = {
  page_num: integerParameter({
    description: 'Page, from 1. A page past the end is empty.',
    fallback: 1,
    max: largestPage,
  }),
  page_size: integerParameter({ description: 'Entries a page, 1 to 100.', fallback: 20, max: 100 }),
};

/** The answer of every list. */
export function listOf<S extends z.ZodType>(entry: S, name: string) {
  return z
    .object({
      data: z.array(entry).meta({ description: 'Newest first; entries of one instant by id, descending.' }),
      total: z.int().min(0).meta({ description: 'Entries on all pages together.', example: 1 }),
      has_more: z.boolean().meta({ description: 'Whether a later page has entries.', example: false }),
    })
    .meta({ id: `${name}List` });
}

export const chainId = z.string().meta({
  description:
    'Chain in CAIP-2 form; one that this installation serves. EVM chains such as `eip155:8453` (Base), Bitcoin (`bip122:000000000019d6689c085ae165831e93`), Tron (`tron:0x2b6653dc`).',
  example: 'eip155:31337',
});

export const instant = z.string().meta({
  description: 'ISO 8601, UTC, with milliseconds.',
  example: '2026-03-01T12:00:00.000Z',
  format: 'date-time',
});

/** The question to a person about a payment. */
export const paymentApproval = z
  .object({
    id: z.string().meta({ description: 'Identifier, `apr_…`.', example: 'apr_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    status: z.enum(approvalStatuses).meta({ example: 'pending' }),
    expires_at: instant,
  })
  .nullable()
  .meta({ description: 'The question to a person, where a policy wants one asked; null otherwise.' });
