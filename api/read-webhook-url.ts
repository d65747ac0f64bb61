import { isIP } from 'node:net';
import { isLoopback } from '../shared/domain/loopback.ts';
import { type ReadUrl, readTargetUrl, type UrlRules } from '../shared/domain/url-match.ts';
import { isPublicAddress } from '../shared/http-guard.ts';

/** Names that lead into private networks only (RFC 6761, RFC 6762, and what ICANN has set aside). */
const privateName = /^[^.]+$|(^|\.)(localhost|local|internal)$/;

/**
 * Reads the url of a receiver: a place on the public internet that is spoken to by https. What its name leads to is
 * checked at each request; a host that can never be public is refused here already. `URL` has brought every spelling of
 * an address (decimal, octal, hexadecimal, full-width digits) into one.
 */
export function readWebhookUrl(text: string, { allowLoopback }: UrlRules): ReadUrl {
  const read = readTargetUrl(text, { allowLoopback });
  if ('fault' in read) return read;
  const host = new URL(read.url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (allowLoopback && isLoopback(host)) return { url: text };
  const isPublic = isIP(host) === 0 ? !privateName.test(host) : isPublicAddress(host);
  if (!isPublic) return { fault: `must be on the public internet: ${host} is not.` };
  return { url: text };
}
