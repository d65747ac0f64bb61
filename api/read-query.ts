import type { Request } from 'express';
import { PurserError } from '../shared/errors.ts';

/**
 * The query parameters, each given once. Broken percent-encoding stays as it is, and so fits no rule.
 * @throws PurserError 400 naming a parameter that is repeated
 */
export function readQuery(request: Request): Record<string, string> {
  const start = request.originalUrl.indexOf('?');
  const found = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(start < 0 ? '' : request.originalUrl.slice(start))) {
    if (found.has(name))
      throw new PurserError('invalid_request', `${name} is given more than once. Give it once.`, { param: name });
    found.set(name, value);
  }
  return Object.fromEntries(found);
}
