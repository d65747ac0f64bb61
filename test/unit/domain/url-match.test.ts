import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isUrlAllowed, readAllowedUrl, readTargetUrl } from '../../../shared/domain/url-match.ts';

const strict = { allowLoopback: false };
const trying = { allowLoopback: true };

const fault = (text: string, rules = strict): string | undefined => {
  const read = readTargetUrl(text, rules);
  return 'fault' in read ? read.fault : undefined;
};
/** As the service does it: an entry and a target are read before they are compared. */
function allows(entry: string, target: string): boolean {
  const [allowed, url] = [readAllowedUrl(entry, trying), readTargetUrl(target, trying)];
  if ('fault' in allowed) throw new Error(allowed.fault);
  if ('fault' in url) throw new Error(url.fault);
  return isUrlAllowed(url.url, [allowed.url]);
}

describe('a url that may be paid', () => {
  it.each<[string, RegExp]>([
    ['', /absolute URL/],
    ['/data', /absolute URL/],
    ['api.example.com/data', /absolute URL/],
    ['http://api.example.com/data', /begin with https/],
    ['ftp://api.example.com/data', /begin with https/],
    ['javascript:alert(1)', /begin with https/],
    ['http://127.0.0.1/data', /begin with https/],
    ['https://user@api.example.com/', /user or a password/],
    ['https://user:secret@api.example.com/', /user or a password/],
    ['https://api.example.com@evil.example/', /user or a password/],
    ['https://@evil.example/', /user or a password/],
    ['https:/user@api.example.com', /user or a password/],
    ['https://api.example.com/#part', /fragment/],
    ['https://api.example.com/#', /fragment/],
    ['https://api.example.com/a b', /spaces/],
    [' https://api.example.com/', /spaces/],
    ['https://api.exam\tple.com/', /control characters/],
    ['https://api.example.com/\u0000', /control characters/],
    ['https://evil.example\\@api.example.com/', /backslashes/],
    ['https://api.example.com:99999/', /absolute URL/],
    ['https://api.example.com/\ud800', /well-formed/],
    [`https://api.example.com/${'a'.repeat(2_025)}`, /at most 2048 characters/],
  ])('is not %j', (text, message) => expect(fault(text)).toMatch(message));

  it('has as many characters as it may, whatever they take', () => {
    const longest = `https://api.example.com/${'\u{1f600}'.repeat(2_024)}`;
    expect([[...longest].length, fault(longest)]).toEqual([2_048, undefined]);
  });

  it('is written in one way', () => {
    const read = (text: string) => readTargetUrl(text, strict);
    expect(read('HTTPS://API.Example.COM:443/a/../b?q=1')).toEqual({ url: 'https://api.example.com/b?q=1' });
    expect(read('https://bücher.example/ä')).toEqual({ url: 'https://xn--bcher-kva.example/%C3%A4' });
  });

  it.each(['http://127.0.0.1:8080/a', 'http://localhost/a', 'http://[::1]:1/a', 'https://127.0.0.1/'])(
    'is %s where this machine may be named, and nowhere else by http',
    (text) => {
      expect(fault(text, trying)).toBeUndefined();
      expect(fault(text.replace(/127\.0\.0\.1|localhost|\[::1\]/, 'api.example.com'), trying)).toEqual(
        text.startsWith('https') ? undefined : expect.stringMatching(/begin with https/),
      );
    },
  );
});

describe('an entry of allowed_urls', () => {
  it.each([
    'https://api.example.com/?',
    'https://api.example.com/a?b=c',
    'https://u@a.example',
    'https://a.example/#b',
  ])('is not %s', (text) => expect(readAllowedUrl(text, strict)).toHaveProperty('fault'));
});

describe('what an entry allows', () => {
  it.each([
    ['https://api.example.com', 'https://api.example.com/any/thing?q=1'],
    ['https://api.example.com/', 'https://api.example.com/any/thing'],
    ['https://api.example.com/data', 'https://api.example.com/data'],
    ['https://api.example.com/data', 'https://api.example.com/data/'],
    ['https://api.example.com/data/', 'https://api.example.com/data'],
    ['https://api.example.com/data', 'https://api.example.com/data/x/y'],
    ['https://api.example.com/data', 'https://api.example.com/data?q=../x'],
    ['https://api.example.com/data', 'https://api.example.com/x/../data'],
    ['https://api.example.com/data', 'https://api.example.com/%64ata'],
    ['https://api.example.com/d%61ta', 'https://api.example.com/data'],
    ['https://api.example.com/a%2fb', 'https://api.example.com/a%2Fb/c'],
    ['https://api.example.com/ä', 'https://api.example.com/%c3%a4'],
    ['https://bücher.example', 'https://xn--bcher-kva.example/a'],
    ['https://api.example.com', 'https://API.EXAMPLE.com:443/a'],
    ['https://api.example.com', 'https://api.example.com./a'],
    ['https://api.example.com.', 'https://api.example.com/a'],
    ['http://127.0.0.1:80', 'http://127.0.0.1/'],
    ['https://api.example.com', 'https://api.example.com/..%2Fany'],
  ])('%s allows %s', (entry, target) => expect(allows(entry, target)).toBe(true));

  it.each([
    ['https://api.example.com', 'https://api.example.org/'],
    ['https://api.example.com', 'https://www.api.example.com/'],
    ['https://example.com', 'https://api.example.com/'],
    ['https://api.example.com', 'https://api.example.com.evil.example/'],
    ['https://api.example.com', 'https://api.example.com:8443/'],
    ['https://api.example.com:8443', 'https://api.example.com/'],
    ['https://127.0.0.1', 'http://127.0.0.1/'],
    ['http://localhost', 'http://127.0.0.1/'],
    ['https://api.example.com/data', 'https://api.example.com/'],
    ['https://api.example.com/data', 'https://api.example.com/database'],
    ['https://api.example.com/data', 'https://api.example.com/Data'],
    ['https://api.example.com/data', 'https://api.example.com//data'],
    ['https://api.example.com/data', 'https://api.example.com/data/../admin'],
    ['https://api.example.com/data', 'https://api.example.com/data/%2e%2e/admin'],
    ['https://api.example.com/data', 'https://api.example.com/data/.%2E/admin'],
    ['https://api.example.com/data', 'https://api.example.com/data%2fx'],
    ['https://api.example.com/data', 'https://api.example.com/data/..%2fadmin'],
    ['https://api.example.com/data', 'https://api.example.com/data/x%2F..%2F..%2Fadmin'],
    ['https://api.example.com/data', 'https://api.example.com/data/..%5Cadmin'],
    ['https://api.example.com/data', 'https://api.example.com/data/..;/admin'],
    ['https://api.example.com/data', 'https://api.example.com/data/..%3Bx/admin'],
    ['https://api.example.com/a/b', 'https://api.example.com/a%2Fb'],
    ['https://api.example.com/a%2Fb', 'https://api.example.com/a/b'],
    ['https://api.example.com/a%2Fb', 'https://api.example.com/a%252Fb'],
    ['https://api.example.com/data', 'https://api.example.com/%2564ata'],
  ])('%s does not allow %s', (entry, target) => expect(allows(entry, target)).toBe(false));

  const host = fc.constantFrom('api.example.com', 'example.org', 'bücher.example', '127.0.0.1');
  const port = fc.constantFrom('', ':8443', ':1');
  const segment = fc.string({ unit: fc.constantFrom(...'aZ09-_~!$&()*+,=:@ä%é'), minLength: 1, maxLength: 6 });
  const path = fc
    .array(
      segment.map((text) => encodeURIComponent(text)),
      { maxLength: 4 },
    )
    .map((segments) => segments.map((each) => `/${each}`).join(''));
  const place = fc.record({ host, port, path });
  type Place = { host: string; port: string; path: string };
  const write = ({ host, port, path }: Place) => `https://${host}${port}${path}`;
  /** Encodes what need not be encoded, in small letters. */
  const spell = (text: string) =>
    text.replace(/[A-Za-z0-9-]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`);

  it('does not depend on how a path is spelt', () => {
    fc.assert(
      fc.property(place, path, (entry, below) => {
        const spelt = { ...entry, path: entry.path.replace(/(?<!%|%[0-9A-F])[A-Za-z0-9-]/g, spell) };
        expect(allows(write(entry), write(spelt) + below)).toBe(true);
        expect(allows(write(spelt), write(entry) + below)).toBe(true);
        expect(allows(write(entry), `${write(entry)}${below}/x/..?any=${encodeURIComponent('/../')}`)).toBe(true);
      }),
    );
  });

  it('ends with the host, the port and the segments', () => {
    fc.assert(
      fc.property(place, place, fc.string({ unit: fc.constantFrom(...'abc'), minLength: 1 }), (entry, other, more) => {
        const same = entry.host === other.host && entry.port === other.port;
        const below = `${other.path}/`.startsWith(`${entry.path}/`);
        expect(allows(write(entry), write(other))).toBe(same && below);
        if (entry.path !== '') expect(allows(write(entry), write(entry) + more)).toBe(false);
      }),
    );
  });

  it('is any of several, and nothing of none', () => {
    expect(isUrlAllowed('https://b.example/x', ['https://a.example/', 'https://b.example/x'])).toBe(true);
    expect(isUrlAllowed('https://b.example/x', [])).toBe(false);
  });
});
