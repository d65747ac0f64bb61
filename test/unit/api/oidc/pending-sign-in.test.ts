import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  beginSignIn,
  challengeOf,
  cookieOf,
  findSignIn,
  surplusCookies,
} from '../../../../api/oidc/pending-sign-in.ts';

const now = new Date('2026-03-01T12:00:00.500Z');
const later = (seconds: number) => new Date(now.getTime() + seconds * 1000);
const begin = (accountId?: string) => beginSignIn({ accountId, now });
const header = (...all: ReturnType<typeof begin>[]) =>
  all.map((each) => `${cookieOf(each).name}=${cookieOf(each).value}`).join('; ');

describe('a sign-in that a browser has begun', () => {
  it('is found by its state among others and other cookies, with all that it held', () => {
    const [one, other] = [begin('acct_01kahvd1r0fv2t5c7m4y2q8s3z'), begin()];
    const cookies = `theme=dark; ${header(one, other)}; =x; y`;
    for (const pending of [one, other])
      expect(findSignIn(cookies, { state: pending.state, now })).toEqual({ pending, cookie: cookieOf(pending).name });
  });

  it('is good for ten minutes', () => {
    const pending = begin();
    expect(findSignIn(header(pending), { state: pending.state, now: later(600) })).toHaveProperty('pending');
    expect(findSignIn(header(pending), { state: pending.state, now: later(601) })).toEqual({ fault: 'old' });
  });

  it('is not found by the beginning of its state alone', () => {
    const pending = begin();
    const state = pending.state.slice(0, 12) + begin().state.slice(12);
    expect(findSignIn(header(pending), { state, now })).toEqual({ fault: 'absent' });
  });

  it('is found behind a cookie of the same name that somebody else has set', () => {
    const pending = begin();
    const { name } = cookieOf(pending);
    const cookies = `${name}=planted; ${header(pending)}`;
    expect(findSignIn(cookies, { state: pending.state, now })).toHaveProperty('pending', pending);
  });

  it('is never found in what is no cookie of ours, and never throws', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (cookies, state) => {
        expect(findSignIn(cookies, { state, now })).toEqual({ fault: 'absent' });
      }),
    );
    expect(findSignIn(undefined, { state: begin().state, now })).toEqual({ fault: 'absent' });
  });

  it('proves itself by the SHA-256 of its verifier (RFC 7636, appendix B)', () => {
    const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
    expect(challengeOf({ ...begin(), verifier })).toBe('E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM');
  });

  it('leaves room for a new one: of nine, those begun first go', () => {
    const all = Array.from({ length: 9 }, () => begin());
    expect(surplusCookies(`theme=dark; ${header(...all)}`)).toEqual(all.slice(0, 2).map((each) => cookieOf(each).name));
    expect(surplusCookies(header(...all.slice(0, 7)))).toEqual([]);
    expect(surplusCookies(undefined)).toEqual([]);
  });
});
