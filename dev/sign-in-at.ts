import { z } from 'zod';
import { createCookieJar } from './cookie-jar.ts';

/** Steps of a sign-in and some more. */
const maxSteps = 12;
const stepTimeoutMs = 30_000;

const codeShape = z.object({ exchange_code: z.string() });
const tokensShape = z.object({
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.number(),
  refresh_token: z.string(),
  refresh_expires_in: z.number(),
  user: z.object({ id: z.string(), email: z.string().nullable(), name: z.string().nullable() }),
});
/** What a sign-in gives, as on the wire. */
export type SignedInTokens = z.output<typeof tokensShape>;

/**
 * Signs in as a browser does, at an api whose identity provider is the one of `npm start`: to the provider, there as the
 * person with that address, back, and the code exchanged.
 * @param accountId where the person belongs to several
 * @throws Error with what was answered instead
 */
export async function signInAt({
  baseUrl,
  email,
  accountId,
}: {
  baseUrl: string;
  email: string;
  accountId?: string;
}): Promise<SignedInTokens> {
  const query = accountId === undefined ? '' : `?account=${encodeURIComponent(accountId)}`;
  const { exchange_code } = codeShape.parse(await walk(`${baseUrl}/auth/oidc/redirect${query}`, { email }));
  const response = await fetch(`${baseUrl}/api/v1/auth/exchange`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ exchange_code }),
    signal: AbortSignal.timeout(stepTimeoutMs),
  });
  return tokensShape.parse(await readAnswer(response));
}

/** Follows redirects, keeps cookies, and answers the provider's question. @returns the JSON at the end */
async function walk(startUrl: string, { email }: { email: string }): Promise<unknown> {
  const cookies = createCookieJar();
  let url = startUrl;
  let form: URLSearchParams | undefined;
  for (let step = 0; step < maxSteps; step += 1) {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { Accept: 'application/json', Cookie: cookies.of(url) },
      ...(form && { method: 'POST', body: form }),
      signal: AbortSignal.timeout(stepTimeoutMs),
    });
    cookies.keep(url, response.headers.getSetCookie());
    const location = response.headers.get('location');
    const asksWho = response.ok && form === undefined && new URL(url).pathname.startsWith('/interaction/');
    form = asksWho ? new URLSearchParams({ user: email }) : undefined;
    if (location !== null) url = new URL(location, url).href;
    else if (!asksWho) return readAnswer(response);
    await response.body?.cancel();
  }
  throw new Error(`The sign-in did not end after ${maxSteps} steps.`);
}

/** JSON, or what was answered instead of what was wanted. */
async function readAnswer(response: Response): Promise<unknown> {
  const text = await response.text();
  const where = new URL(response.url).origin + new URL(response.url).pathname;
  if (response.ok) return JSON.parse(text) as unknown;
  throw new Error(`${where} answered ${response.status}: ${messageIn(text)}`);
}

function messageIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: string };
    return message ?? text;
  } catch {
    return text;
  }
}
