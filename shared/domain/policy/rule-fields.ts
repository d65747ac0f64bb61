import { z } from 'zod';
import { canonicalDecimal, maxAmountLength, parseAtoms } from '../money.ts';
import { stablecoins } from './tokens.ts';
import type { RuleWords } from './types.ts';

const fault = (message: string) => ({ error: message, params: { code: 'invalid_amount' } });
const plainDecimal = '^(0|[1-9]\\d*)(\\.\\d+)?$';

/** An amount of zero or more in units of the token that is sent; answered in canonical form. */
export function amount(description: string) {
  return z
    .string()
    .refine(
      (value) => typeof parseAtoms(value) === 'bigint',
      fault('must be a plain decimal string such as "100": no sign, exponent, spaces or leading zeros.'),
    )
    .meta({ description, example: '100', pattern: plainDecimal, maxLength: maxAmountLength })
    .transform(canonicalDecimal);
}

/** A limit of more than zero. */
export function limit(description: string) {
  return amount(description).refine((value) => value !== '0', fault('must be more than zero: zero lets nothing pass.'));
}

/** Binds a rule to one token, or to the stablecoins together. */
export function optionalToken(words: RuleWords) {
  return z
    .union([z.literal(stablecoins), words.token])
    .optional()
    .meta({ description: 'Symbol of the one token that is meant, or `stablecoins`.', example: stablecoins });
}
