import type { Driver } from './driver.ts';
import { endpointTimeoutMs } from './endpoint.ts';
import { HttpFailure } from './http-failure.ts';
import { innermostCode, wasCutOff, withoutAddresses } from './plain-error.ts';
import { wishedRestMs } from './wished-rest.ts';

/** Requests to one endpoint that are under way at once; further ones wait. */
const maxAtOnce = 8;
/** Blocks with all their transactions are the largest answers, of some megabytes. */
const maxAnswerBytes = 64 * 1024 * 1024;
/** A part of an address that is shorter is no credential. */
const shortestSecret = 6;
const notFound = 404;

export interface HttpCall {
  /** Appended to the endpoint's own path; may hold a query. */
  readonly path: string;
  /** Makes it a POST: of text if a string, else of JSON. */
  readonly body?: unknown;
}

/** What stands before the `@` of an endpoint's address, decoded. */
export interface UserInfo {
  readonly username: string;
  readonly password: string;
}

/**
 * An HTTP API that answers in JSON or plain text. Answers are parsed JSON, text where they are none, `null` for 404; a
 * failure is an `HttpFailure`. Connections are kept alive by the runtime.
 * @param url may hold credentials, which appear in no error
 * @param verify makes sure by some call that the endpoint belongs to the chain, else throws `WrongChain`
 * @param authorize headers for the credentials in the address; default: HTTP Basic
 */
export function createHttpDriver({
  url,
  verify,
  authorize = basic,
}: {
  url: string;
  verify: (send: Driver<HttpCall>['send']) => Promise<void>;
  authorize?: (user: UserInfo) => Record<string, string>;
}): Driver<HttpCall> {
  const base = new URL(url);
  const user = { username: decodeURIComponent(base.username), password: decodeURIComponent(base.password) };
  const authorization = user.username || user.password ? authorize(user) : {};
  const secrets = secretsOf(base, user);
  const turn = createTurns(maxAtOnce);
  const send = (call: HttpCall) => turn(() => ask(call));
  return { send, verify: () => verify(send) };

  /** A kept-alive connection may have been closed at the other end: that alone is no failure. */
  async function ask(call: HttpCall): Promise<unknown> {
    const request = () => answerOf(call, AbortSignal.timeout(endpointTimeoutMs));
    try {
      return await request().catch((error: unknown) => {
        if (wasCutOff(error)) return request();
        throw error;
      });
    } catch (error) {
      throw error instanceof HttpFailure ? error : unreached(error);
    }
  }

  async function answerOf({ path, body }: HttpCall, signal: AbortSignal): Promise<unknown> {
    const isText = typeof body === 'string';
    const response = await fetch(addressOf(base, path), {
      signal,
      // Somebody else's address: credentials do not go there.
      redirect: 'manual',
      headers: {
        accept: 'application/json, text/plain',
        ...authorization,
        ...(body !== undefined && { 'content-type': isText ? 'text/plain' : 'application/json' }),
      },
      ...(body !== undefined && { method: 'POST', body: isText ? body : JSON.stringify(body) }),
    });
    const text = await readText(response);
    if (response.status === notFound) return null;
    if (response.ok) return parse(text, response.headers.get('content-type') ?? '');
    const said = clean(text);
    const retryAfterMs = wishedRestMs({ header: response.headers.get('retry-after'), text: said });
    throw new HttpFailure({ status: response.status, text: said || response.statusText, retryAfterMs });
  }

  /** Whoever limits us may repeat our key. */
  function clean(text: string): string {
    return withoutAddresses(secrets.reduce((rest, secret) => rest.replaceAll(secret, '[secret]'), text)).trim();
  }
}

/** The runtime's own messages may hold the address: only the name of the failure is repeated. */
function unreached(error: unknown): HttpFailure {
  if (error instanceof Error && error.name === 'TimeoutError')
    return new HttpFailure({ text: `No answer within ${endpointTimeoutMs / 1_000} s.` });
  const code = innermostCode(error);
  return new HttpFailure({ text: `The request failed${code ? ` (${code})` : ''}.` });
}

function basic({ username, password }: UserInfo): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}

/** The endpoint's path and query, and then the call's. */
function addressOf(base: URL, path: string): URL {
  const address = new URL(base.origin);
  const [pathname, query = ''] = path.split('?', 2) as [string, string?];
  address.pathname = base.pathname.replace(/\/$/, '') + pathname;
  address.search = [base.search.slice(1), query].filter((each) => each !== '').join('&');
  return address;
}

/** What of an address may be a credential: user, password, parts of the path, values of the query. */
function secretsOf(base: URL, { username, password }: UserInfo): string[] {
  const parts = [username, password, ...base.pathname.split('/'), ...base.searchParams.values()];
  return parts.filter((part) => part.length >= shortestSecret);
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > maxAnswerBytes) throw new HttpFailure({ text: `The answer is longer than ${maxAnswerBytes} bytes.` });
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function parse(text: string, contentType: string): unknown {
  if (/html/i.test(contentType)) throw new HttpFailure({ text: 'The answer is a web page.' });
  // The hex of a hash or a transaction may look like a number.
  if (/^[0-9a-f]{16,}$/i.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    if (/json/i.test(contentType)) throw new HttpFailure({ text: 'The answer is no JSON.' });
    return text;
  }
}

/** Lets so many tasks run at once, the others in their order. */
function createTurns(max: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
