import { createHash, randomBytes } from 'node:crypto';

/** How long somebody may take at the identity provider. */
export const pendingSeconds = 600;

/** What a browser keeps while its user is at the identity provider; each is for one use. */
export interface PendingSignIn {
  /** Ties the answer to the browser that asked (RFC 6749, 10.12). */
  readonly state: string;
  /** Ties the ID token to this sign-in (OpenID Connect Core, 3.1.2.1). */
  readonly nonce: string;
  /** Ties the code to this sign-in (PKCE, RFC 7636). */
  readonly verifier: string;
  /** The account that was asked for. */
  readonly accountId: string | undefined;
  /** Seconds since 1970. */
  readonly startedAt: number;
}

/** 256 random bits in base64url. */
const random = () => randomBytes(32).toString('base64url');
const randomShape = /^[A-Za-z0-9_-]{43}$/;

const cookiePrefix = 'purser_sign_in_';
/** Of the state, so that sign-ins in several tabs do not overwrite each other. */
const nameLength = 12;
/** Sign-ins that a browser may have begun and not ended; headers together may have 16 KiB. */
const maxPending = 8;

export function beginSignIn({ accountId, now }: { accountId: string | undefined; now: Date }): PendingSignIn {
  return { state: random(), nonce: random(), verifier: random(), accountId, startedAt: secondsOf(now) };
}

/** The challenge for a verifier (RFC 7636, 4.2: S256). */
export function challengeOf({ verifier }: PendingSignIn): string {
  return createHash('sha256').update(verifier).digest('base64url');
}

/** The cookie that keeps it. */
export function cookieOf(pending: PendingSignIn): { name: string; value: string } {
  const { state, nonce, verifier, accountId = '', startedAt } = pending;
  return { name: cookieName(state), value: [state, nonce, verifier, startedAt, accountId].join('.') };
}

/** What came of the sign-in whose state an answer carries, going by the cookies of the browser. */
export type Found =
  | { readonly pending: PendingSignIn; readonly cookie: string }
  /** `absent`: begun in another browser, over already, or never. `old`: it took too long. */
  | { readonly fault: 'absent' | 'old' };

/** @param cookies header of the request */
export function findSignIn(cookies: string | undefined, { state, now }: { state: string; now: Date }): Found {
  const name = randomShape.test(state) ? cookieName(state) : undefined;
  const pending = readCookies(cookies)
    .filter((cookie) => cookie.name === name)
    .map(({ value }) => readValue(value))
    .find((each) => each?.state === state);
  if (name === undefined || !pending) return { fault: 'absent' };
  return secondsOf(now) - pending.startedAt > pendingSeconds ? { fault: 'old' } : { pending, cookie: name };
}

/** Names of cookies of sign-ins that are too many: those begun first, which browsers send first (RFC 6265, 5.4). */
export function surplusCookies(cookies: string | undefined): string[] {
  const names = readCookies(cookies).flatMap(({ name }) => (name.startsWith(cookiePrefix) ? [name] : []));
  return names.slice(0, Math.max(0, names.length - maxPending + 1));
}

const cookieName = (state: string) => cookiePrefix + state.slice(0, nameLength);

function readCookies(header = ''): { name: string; value: string }[] {
  return header.split(';').map((pair) => {
    const [name = '', ...value] = pair.split('=');
    return { name: name.trim(), value: value.join('=').trim() };
  });
}

function readValue(value: string): PendingSignIn | undefined {
  const [state = '', nonce = '', verifier = '', startedAt = '', accountId = ''] = value.split('.');
  if (![state, nonce, verifier].every((each) => randomShape.test(each)) || !/^\d{1,12}$/.test(startedAt))
    return undefined;
  return { state, nonce, verifier, startedAt: Number(startedAt), accountId: accountId === '' ? undefined : accountId };
}

const secondsOf = (time: Date) => Math.floor(time.getTime() / 1000);
