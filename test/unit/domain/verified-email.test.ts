import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { verifiedEmail } from '../../../shared/domain/verified-email.ts';

const email = 'Ann@Example.com';
const read = (claims: Record<string, unknown>, isTrusted = false) => verifiedEmail(claims, { isTrusted });

describe('a verified address', () => {
  it.each([
    [true, true],
    ['true', true],
    [false, false],
    ['false', false],
    ['TRUE', false],
    [1, false],
    [null, false],
    [{}, false],
    [undefined, false],
  ])('by the claim %j is one: %j', (claim, isOne) => {
    expect(read({ email, email_verified: claim })).toBe(isOne ? 'ann@example.com' : null);
  });

  it('is one without the claim where the provider is trusted, and never against it', () => {
    expect(read({ email }, true)).toBe('ann@example.com');
    for (const claim of [false, 'false', 0, null, 'no'])
      expect(read({ email, email_verified: claim }, true)).toBeNull();
  });

  it.each([
    [undefined],
    [null],
    [7],
    [{ toString: () => 'ann@example.com' }],
    [''],
    ['ann'],
    ['@example.com'],
    ['ann@'],
    ['ann @example.com'],
    ['ann@example.com\n'],
    ['ann\u0000@example.com'],
    ['änn@example.com'],
    ['\u212Aelvin@example.com'],
    [`${'a'.repeat(250)}@example.com`],
  ])('is none where the address is %j', (given) => {
    expect(read({ email: given, email_verified: true })).toBeNull();
  });

  it('is in lower case and ASCII, whatever is claimed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        const kept = read({ email: `${name}@example.com`, email_verified: true });
        if (kept !== null) expect(kept).toMatch(/^[!-@[-~]+$/);
      }),
    );
  });
});
