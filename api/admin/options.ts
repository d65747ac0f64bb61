import { z } from 'zod';
import { findAccount } from '../../shared/db/accounts.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { roles } from '../../shared/domain/access.ts';
import { normaliseText, type TextRule } from '../../shared/domain/text.ts';
import { type IdPrefix, isId } from '../../shared/ids.ts';
import { UsageError } from '../usage-error.ts';

// Options that several commands take. Each fault names its option.

/** Longest e-mail address (RFC 5321, 4.5.3.1.3, less the angle brackets). */
const maxEmailLength = 254;

/** @param what the thing that it names */
export function idOption(option: string, { prefix, what }: { prefix: IdPrefix; what: string }) {
  const article = /^[aeiou]/i.test(what) ? 'an' : 'a';
  return z
    .string({ error: `${option} is missing: the ${what}, ${prefix}_….` })
    .refine((id) => isId(prefix, id), `${option} is no identifier of ${article} ${what}: it begins with ${prefix}_.`);
}

export const accountOption = (option = '--account') => idOption(option, { prefix: 'acct', what: 'account' });

/** Text without spaces around it. @param use what it is for */
export function textOption(option: string, { use, ...rule }: TextRule & { use: string }) {
  return z
    .string({ error: `${option} is missing: ${use}.` })
    .trim()
    .min(1, `${option} is empty.`)
    .transform((text, context) => {
      const result = normaliseText(text, rule);
      if ('text' in result) return result.text;
      const message =
        result.fault === 'too_long'
          ? `${option} has more than ${rule.maxLength} characters.`
          : `${option} holds characters that are no text.`;
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    });
}

export function emailOption(option: string, { use }: { use: string }) {
  return z
    .string({ error: `${option} is missing: ${use}.` })
    .toLowerCase()
    .max(maxEmailLength, `${option} has more than ${maxEmailLength} characters.`)
    .pipe(z.email({ error: `${option} must be an e-mail address.` }));
}

export const roleOption = z.enum(roles, { error: `--role must be one of ${roles.join(', ')}.` });

const maxReasonLength = 1024;

export const reasonOption = (use: string) =>
  textOption('--reason', { use, maxLength: maxReasonLength, multiline: true });

/** @throws UsageError where there is none */
export async function requireAccount(db: Queryable, { id }: { id: string }) {
  const account = await findAccount(db, { id });
  if (!account) throw new UsageError(`There is no account ${id}.`);
  return account;
}
