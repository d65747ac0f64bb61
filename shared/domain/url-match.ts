import { isLoopback } from './loopback.ts';

export interface UrlRules {
  /** Whether hosts that are literally loopback may be named, with http too. For trying out. */
  readonly allowLoopback: boolean;
}

/** The url as `URL` writes it, or what is wrong with it, as the rest of a sentence that begins with its name. */
export type ReadUrl = { readonly url: string } | { readonly fault: string };

/** Longest url, in code points. */
const maxUrlLength = 2_048;

/** Reads a url that may be paid. */
export function readTargetUrl(text: string, { allowLoopback }: UrlRules): ReadUrl {
  if ([...text].length > maxUrlLength)
    return { fault: `must have at most ${maxUrlLength} characters (Unicode code points).` };
  if (!text.isWellFormed()) return { fault: 'must be well-formed Unicode, without unpaired surrogates.' };
  // `URL` would drop some of these without a word.
  if (/[\p{Cc}\s\\]/u.test(text)) return { fault: 'must not contain spaces, control characters or backslashes.' };
  const url = URL.parse(text);
  if (!url) return { fault: 'must be an absolute URL such as https://api.example.com/data.' };
  const own = allowLoopback && isLoopback(url.hostname);
  if (url.protocol !== 'https:' && !(own && url.protocol === 'http:'))
    return { fault: `must begin with https://${allowLoopback ? ', or with http:// for this machine' : ''}.` };
  if (url.username !== '' || url.password !== '' || /^https?:\/*[^/?#]*@/i.test(text))
    return { fault: 'must not contain a user or a password.' };
  if (text.includes('#')) return { fault: 'must not contain a fragment (#): it is never sent.' };
  return { url: url.href };
}

/** Reads an entry of `allowed_urls`: an origin, or a path with all that is below it. */
export function readAllowedUrl(text: string, rules: UrlRules): ReadUrl {
  const read = readTargetUrl(text, rules);
  if ('url' in read && text.includes('?'))
    return { fault: 'must not contain a query (?): what is allowed goes by the path.' };
  return read;
}

/**
 * Whether a url lies within one of the entries: the same scheme, host and port, and a path that begins with the entry's
 * segments. An entry without a path allows the whole origin.
 * @param target as `readTargetUrl` gives it
 * @param allowed as `readAllowedUrl` takes them
 */
export function isUrlAllowed(target: string, allowed: readonly string[]): boolean {
  const [url, segments] = readPlace(target);
  return allowed.some((entry) => {
    const [within, first] = readPlace(entry);
    if (url.protocol !== within.protocol || url.port !== within.port || hostOf(url) !== hostOf(within)) return false;
    if (first.length > 0 && segments.some(climbs)) return false;
    return first.every((segment, index) => segments[index] === segment);
  });
}

/** A url, and the segments of its path: `URL` has resolved the dot segments; a slash at the end says nothing. */
function readPlace(text: string): [url: URL, segments: string[]] {
  const url = new URL(text);
  const path = url.pathname.replace(/^\//, '').replace(/\/$/, '');
  return [url, path === '' ? [] : path.split('/').map(normalise)];
}

/** `URL` has made it small, and IDN to Punycode; the dot at the end of a full name is no other host. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/\.$/, '');

/**
 * The one way to write a segment (RFC 3986, 6.2.2): what need not be encoded is not, the rest in capitals. It is decoded
 * once: an encoded percent sign stays one, an encoded slash is no separator.
 */
function normalise(segment: string): string {
  return segment.replace(/%[0-9a-f]{2}/gi, (code) => {
    const char = String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(char) ? char : code.toUpperCase();
  });
}

/** Whether a server that reads a segment in its own way could leave the path by it: `..%2F`, `..;`. */
function climbs(segment: string): boolean {
  return segment.split(/%2F|%5C|;|%3B/).some((part) => part === '.' || part === '..');
}
