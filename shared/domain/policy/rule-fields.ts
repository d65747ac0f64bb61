import { z } from 'zod';
import { canonicalDecimal, maxAmountLength, parseAtoms } from '../money.ts';
import { stablecoins } from './tokens.ts';
import type { RuleWords } from './types.ts';

/** Entries of a list in rules at most, before repeats are merged. */
const maxListLength = 1000;

const fault = (message: string) => ({ error: message, params: { code: 'invalid_amount' } });
const plainDecimal = '^(0|[1-9]\\d*)(\\.\\d+)?$';

/**
 * The rules of a type: these members and no others; `null` for a member says the same as leaving it out.
 * @param check tells what is wrong with the members together
 */
export function rulesOf<Shape extends z.ZodRawShape>(
  shape: Shape,
  check: (rules: z.output<z.ZodObject<Shape, z.core.$strict>>, context: z.RefinementCtx) => void = () => {},
) {
  return z.preprocess(
    (value) => dropNulls(value, Object.keys(shape)),
    z.strictObject(shape).superRefine((rules, context) => check(rules as never, context)),
  );
}

function dropNulls(value: unknown, members: readonly string[]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([key, each]) => each !== null || !members.includes(key)));
}

/** An amount of zero or more in units of the token that is sent; answered in canonical form. */
export function amount(description: string) {
  return z
    .string()
    .refine(
      (value) => typeof parseAtoms(value) === 'bigint',
      fault('must be a plain decimal string such as "100": no sign, exponent, spaces or leading zeros.'),
    )
    .overwrite(canonicalDecimal)
    .meta({ description, example: '100', pattern: plainDecimal, maxLength: maxAmountLength });
}

/** A limit of more than zero. */
export function limit(description: string) {
  return amount(description)
    .refine((value) => value !== '0', fault('must be more than zero: zero lets nothing pass.'))
    .meta({ description, example: '100', pattern: plainDecimal, maxLength: maxAmountLength });
}

/** A whole number within bounds. */
export function wholeNumber({ min, max, description }: { min: number; max: number; description: string }) {
  return z
    .number()
    .refine((value) => Number.isInteger(value) && value >= min && value <= max, {
      error: `must be a whole number from ${min} to ${max}.`,
    })
    .meta({ type: 'integer', minimum: min, maximum: max, description, example: min });
}

/** A list of at least one entry; repeats are merged, the first of them stays. */
export function listOfOnes<Entry extends string | number>(
  entry: z.ZodType<Entry>,
  { max = maxListLength, description }: { max?: number; description: string },
) {
  return z
    .array(entry)
    .refine((list) => list.length > 0, { error: 'must have at least one entry. Or leave it out.' })
    .refine((list) => list.length <= max, { error: `must have at most ${max} entries.`, abort: true })
    .overwrite((list) => [...new Set(list)])
    .meta({ minItems: 1, maxItems: max, description });
}

/** Binds a rule to one token, or to the stablecoins together. */
export function optionalToken(words: RuleWords) {
  const read = (value: string) =>
    value === stablecoins ? z.literal(stablecoins).safeParse(value) : words.token.safeParse(value);
  return z
    .string()
    .superRefine((value, context) => {
      for (const issue of read(value).error?.issues ?? [])
        context.addIssue({ ...issue, code: 'custom', path: [], params: issue.code === 'custom' ? issue.params : {} });
    })
    .overwrite((value) => read(value).data ?? value)
    .optional()
    .meta({ description: 'Symbol of the one token that is meant, or `stablecoins`.', example: stablecoins });
}
