import type { z } from 'zod';
import { type ErrorCode, PurserError } from '../shared/errors.ts';

/**
 * Parses a request part, or says what is wrong with the first member at fault.
 * @param root dotted path of the part inside the request, e.g. `rules`; none for a whole body or query
 * @throws PurserError 400 with `param`
 */
export function validate<S extends z.ZodType>(
  schema: S,
  input: unknown,
  { root }: { root?: string } = {},
): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const path = root === undefined ? issue.path : [root, ...issue.path];
  throw toError(issue, { path, value: valueAt(input, issue.path) });
}

type Issue = z.core.$ZodIssue;

function toError(issue: Issue, { path, value }: { path: PropertyKey[]; value: unknown }): PurserError {
  if (issue.code === 'unrecognized_keys') {
    const param = dotted([...path, issue.keys[0]!]);
    return new PurserError('invalid_request', `${param} is not known here. Leave it out.`, { param });
  }
  const param = dotted(path);
  const name = param === '' ? 'The request' : param;
  const code = issue.code === 'custom' ? (issue.params?.code as ErrorCode | undefined) : undefined;
  return new PurserError(code ?? 'invalid_request', `${name} ${describe(issue, value)}`, {
    param: param === '' ? undefined : param,
  });
}

/** What is wrong, as the rest of a sentence that begins with the member's name. */
function describe(issue: Issue, value: unknown): string {
  if (value === undefined && issue.code !== 'custom') return 'is required.';
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${article(issue.expected)}, not ${kind(value)}.`;
    case 'invalid_value':
      return `must be ${issue.values.map((each) => JSON.stringify(each)).join(' or ')}.`;
    case 'invalid_union':
    case 'custom':
      return issue.message;
    default:
      return `is not valid: ${issue.message}.`;
  }
}

function article(type: string): string {
  if (type === 'record' || type === 'object') return 'an object';
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function kind(value: unknown): string {
  if (value === null) return 'null';
  return article(Array.isArray(value) ? 'array' : typeof value);
}

function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join('.');
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) value = (value as Record<PropertyKey, unknown> | null | undefined)?.[key];
  return value;
}
