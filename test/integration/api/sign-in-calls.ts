import { createProviderClient } from '../../../api/oidc/provider-client.ts';
import type { SignUp } from '../../../api/operations/complete-sign-in.ts';
import { redirectUriOf } from '../../../api/routes/sign-in.ts';
import { type CookieJar, createCookieJar } from '../../../dev/cookie-jar.ts';
import { freePort } from '../../../dev/ports.ts';
import { createLogger, type Logger } from '../../../shared/log.ts';
import { startTestProvider, type TestProvider } from '../../support/provider.ts';
import { callWith, startTestApi, type TestApi } from './harness.ts';

export const nobody = '127.0.0.1:1';

/** An api at which people sign in, and their identity provider. */
export interface SignInWorld {
  readonly api: TestApi;
  readonly provider: TestProvider;
  stop(): Promise<void>;
}

export async function startSignInWorld({
  signUp = 'invited',
  trustsEmail = false,
  consoleUrl,
  hostname,
  settings,
  log = createLogger({ process: 'test', level: 'silent' }),
}: {
  signUp?: SignUp;
  trustsEmail?: boolean;
  consoleUrl?: string;
  hostname?: string;
  settings?: Parameters<typeof startTestProvider>[0]['settings'];
  log?: Logger;
} = {}): Promise<SignInWorld> {
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const redirectUri = redirectUriOf({ publicUrl });
  const provider = await startTestProvider({
    redirectUri,
    ...(hostname !== undefined && { hostname }),
    ...(settings && { settings }),
  });
  const client = createProviderClient(
    { ...provider, scopes: 'openid email profile', trustsEmail },
    { redirectUri, log },
  );
  const signIn = { provider: client, publicUrl, consoleUrl, signUp };
  const api = await startTestApi({ temporalAddress: nobody, port, signIn, log });
  return {
    api,
    provider,
    async stop() {
      await api.stop();
      await provider.stop();
    },
  };
}

/** What was answered at the end of a step. */
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at freely, member by member, by assertions
  readonly body: any;
}

/** An api that stops waits for connections that are kept. */
const closing = { Connection: 'close' };

/** One browser, step by step. */
export interface Visitor {
  readonly jar: CookieJar;
  /** Opens `/auth/oidc/redirect`. @returns where the provider asks */
  begin(query?: string): Promise<URL>;
  /** Chooses somebody at the provider. @returns where it sends the browser back to */
  choose(authorization: URL, email: string): Promise<URL>;
  /** Opens any URL of the api, and follows nothing. */
  open(url: URL | string, headers?: Record<string, string>): Promise<Answered>;
  /** All three; the last one asks for JSON. */
  signIn(email: string, query?: string): Promise<Answered>;
}

export function createVisitor(apiUrl: string): Visitor {
  const jar = createCookieJar();
  async function request(url: URL | string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...closing, Cookie: jar.of(String(url)), ...(init.headers as Record<string, string>) };
    const response = await fetch(url, { redirect: 'manual', ...init, headers });
    jar.keep(String(url), response.headers.getSetCookie());
    return response;
  }
  const follow = async (url: URL, init: RequestInit = {}) => {
    const response = await request(url, init);
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${url.origin}${url.pathname} leads nowhere: ${await response.text()}`);
    return new URL(location, url);
  };
  const visitor: Visitor = {
    jar,
    begin: (query = '') => follow(new URL(`/auth/oidc/redirect${query}`, apiUrl)),
    async choose(authorization, email) {
      const question = await follow(authorization);
      const resume = await follow(question, { method: 'POST', body: new URLSearchParams({ user: email }) });
      return follow(resume);
    },
    async open(url, headers = {}) {
      const response = await request(url, { headers });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.startsWith('application/json');
      return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined };
    },
    async signIn(email, query) {
      const callback = await visitor.choose(await visitor.begin(query), email);
      return visitor.open(callback, { Accept: 'application/json' });
    },
  };
  return visitor;
}

/** A new browser that signs in. */
export const signIn = ({ api }: Pick<SignInWorld, 'api'>, email: string, query?: string) =>
  createVisitor(api.url).signIn(email, query);

/** Exchanges a code. */
export const exchange = (url: string, code: string, headers: Record<string, string> = {}) =>
  callWith(url, {})('POST', '/api/v1/auth/exchange', { exchange_code: code }, { ...closing, ...headers });

/** The tokens of a new browser that signs in. */
export async function tokensOf(world: Pick<SignInWorld, 'api'>, email: string, query?: string) {
  const { body } = await signIn(world, email, query);
  const answer = await exchange(world.api.url, body.exchange_code);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}
