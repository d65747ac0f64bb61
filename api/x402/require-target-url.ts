import { readTargetUrl, type UrlRules } from '../../shared/domain/url-match.ts';
import { PurserError } from '../../shared/errors.ts';

/**
 * A url that may be paid, as `URL` writes it.
 * @param param member of the request that names it
 * @throws PurserError 400 `invalid_request`
 */
export function requireTargetUrl(text: string, { param, allowLoopback }: UrlRules & { param: string }): string {
  const read = readTargetUrl(text, { allowLoopback });
  if ('url' in read) return read.url;
  throw new PurserError('invalid_request', `${param} ${read.fault}`, { param });
}
