import { readTargetUrl, type UrlRules } from '../../shared/domain/url-match.ts';
import { PurserError } from '../../shared/errors.ts';

const maxLength = 2_048;

/**
 * A url that may be paid, as `URL` writes it.
 * @param param member of the request that names it
 * @throws PurserError 400 `invalid_request`
 */
export function requireTargetUrl(text: string, { param, allowLoopback }: UrlRules & { param: string }): string {
  const read =
    [...text].length > maxLength
      ? { fault: `must have at most ${maxLength} characters (Unicode code points).` }
      : readTargetUrl(text, { allowLoopback });
  if ('url' in read) return read.url;
  throw new PurserError('invalid_request', `${param} ${read.fault}`, { param });
}
