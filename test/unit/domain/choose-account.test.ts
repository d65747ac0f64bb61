import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseAccount, type Membership } from '../../../shared/domain/choose-account.ts';

const membership = (accountId: string, more: Partial<Membership> = {}): Membership => ({
  accountId,
  invitedAt: 0,
  joinedAt: 0,
  isNew: false,
  lastSignInAt: null,
  ...more,
});
const choose = (memberships: Membership[], asked?: string) => chooseAccount({ memberships, asked });

describe('the account of a sign-in', () => {
  it('is none for who belongs to none', () => {
    expect(choose([])).toBeUndefined();
    expect(choose([], 'a')).toBeUndefined();
  });

  it('is the one that was asked for, or none: never another', () => {
    const all = [membership('a', { isNew: true }), membership('b', { lastSignInAt: 9 })];
    expect(choose(all, 'b')).toBe('b');
    expect(choose(all, 'c')).toBeUndefined();
  });

  it('is the newest invitation that is accepted now, before that of the last sign-in', () => {
    const all = [
      membership('a', { lastSignInAt: 9 }),
      membership('b', { isNew: true, invitedAt: 1 }),
      membership('c', { isNew: true, invitedAt: 3 }),
      membership('d', { isNew: true, invitedAt: 2 }),
    ];
    expect(choose(all)).toBe('c');
  });

  it('is that of the last sign-in, before the one they joined first', () => {
    const all = [
      membership('a', { joinedAt: 1 }),
      membership('b', { joinedAt: 2, lastSignInAt: 5 }),
      membership('c', { joinedAt: 3, lastSignInAt: 8 }),
    ];
    expect(choose(all)).toBe('c');
  });

  it('is the one they joined first, before any sign-in', () => {
    expect(choose([membership('b', { joinedAt: 2 }), membership('a', { joinedAt: 1 })])).toBe('a');
  });

  it('is always one of theirs', () => {
    const time = fc.integer({ min: 0, max: 1_000 });
    const any = fc.record({
      accountId: fc.constantFrom('a', 'b', 'c', 'd'),
      invitedAt: time,
      joinedAt: time,
      isNew: fc.boolean(),
      lastSignInAt: fc.option(time),
    });
    fc.assert(
      fc.property(
        fc.array(any, { minLength: 1 }),
        fc.option(fc.constantFrom('a', 'z'), { nil: undefined }),
        (all, asked) => {
          const chosen = choose(all, asked);
          if (asked === undefined || all.some(({ accountId }) => accountId === asked))
            expect(all.map(({ accountId }) => accountId)).toContain(chosen);
          else expect(chosen).toBeUndefined();
          if (asked !== undefined && chosen !== undefined) expect(chosen).toBe(asked);
        },
      ),
    );
  });
});
