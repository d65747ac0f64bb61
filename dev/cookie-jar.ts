/** What a browser keeps of the cookies that it is given, for as long as it runs. */
export interface CookieJar {
  /** The header for a request. */
  of(url: string): string;
  /** Takes in the `Set-Cookie` lines of an answer. */
  keep(url: string, lines: readonly string[]): void;
}

/** Cookies by origin: unlike those of browsers, the ports of one machine do not share them. Paths are not looked at. */
export function createCookieJar(): CookieJar {
  const origins = new Map<string, Map<string, string>>();
  const jarOf = (url: string) => {
    const { origin } = new URL(url);
    const jar = origins.get(origin) ?? new Map<string, string>();
    origins.set(origin, jar);
    return jar;
  };
  return {
    of: (url) => [...jarOf(url)].map(([name, value]) => `${name}=${value}`).join('; '),
    keep(url, lines) {
      for (const line of lines) {
        const [pair = '', ...attributes] = line.split(';');
        const [name = '', ...value] = pair.split('=');
        const isOver = attributes.some((each) => /^\s*expires=thu, 01 jan 1970/i.test(each));
        if (isOver) jarOf(url).delete(name);
        else jarOf(url).set(name, value.join('='));
      }
    },
  };
}
