import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAmount } from '../../../../shared/domain/money.ts';
import { evaluate } from '../../../../shared/domain/policy/engine.ts';

const now = new Date('2026-01-01T00:00:00.000Z');
const usdc = (amountMinor: bigint) => ({ token: 'USDC', decimals: 6, amountMinor });
const limit = (value: unknown, id = 'pol_a') => ({
  id,
  type: 'spending_limit',
  rules: { max_transaction_amount: value },
});

describe('the policy engine', () => {
  it('allows when there is no policy', () => {
    expect(evaluate({ payment: usdc(1n), policies: [], now })).toEqual({ outcome: 'allow', violations: [] });
  });

  it('lets an amount equal to the limit pass and denies one unit more', () => {
    expect(evaluate({ payment: usdc(10_000_000n), policies: [limit('10')], now }).outcome).toBe('allow');
    expect(evaluate({ payment: usdc(10_000_001n), policies: [limit('10')], now })).toEqual({
      outcome: 'deny',
      violations: [
        {
          policy_id: 'pol_a',
          policy_type: 'spending_limit',
          rule: 'max_transaction_amount',
          limit: '10',
          attempted: '10.000001',
          used: null,
          remaining: null,
          token: 'USDC',
          resets_at: null,
        },
      ],
    });
  });

  it('reads the limit in units of the token sent, whatever its decimals (F32)', () => {
    const policies = [limit('1.5')];
    expect(
      evaluate({ payment: { token: 'USDC', decimals: 18, amountMinor: 1_500_000_000_000_000_000n }, policies, now }),
    ).toMatchObject({ outcome: 'allow' });
    expect(
      evaluate({ payment: { token: 'USDC', decimals: 18, amountMinor: 1_500_000_000_000_000_001n }, policies, now }),
    ).toMatchObject({ outcome: 'deny' });
  });

  it('compares a limit finer than the smallest unit exactly', () => {
    expect(evaluate({ payment: usdc(1n), policies: [limit('0.0000009')], now }).outcome).toBe('deny');
    expect(evaluate({ payment: usdc(1n), policies: [limit('0.0000011')], now }).outcome).toBe('allow');
  });

  it('names every policy that denies, in their order', () => {
    const policies = [limit('1', 'pol_a'), limit('5', 'pol_b'), limit('2', 'pol_c')];
    const { violations } = evaluate({ payment: usdc(3_000_000n), policies, now });
    expect(violations.map((violation) => violation.policy_id)).toEqual(['pol_a', 'pol_c']);
  });

  it.each([
    ['a type it does not know', { id: 'pol_a', type: 'weather', rules: {} }],
    ['a type named like an inherited member', { id: 'pol_a', type: 'toString', rules: {} }],
    ['rules that are null', { id: 'pol_a', type: 'spending_limit', rules: null }],
    ['rules without the member', { id: 'pol_a', type: 'spending_limit', rules: {} }],
    ['a limit that is a number', limit(10)],
    ['a limit that is no decimal', limit('1e3')],
  ])('denies when a policy has %s', (_what, policy) => {
    expect(evaluate({ payment: usdc(1n), policies: [policy], now })).toMatchObject({
      outcome: 'deny',
      violations: [{ policy_id: 'pol_a', rule: 'engine', limit: null, attempted: '0.000001' }],
    });
  });

  it('allows exactly the amounts up to the lowest limit', () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 30n });
    fc.assert(
      fc.property(
        amount,
        fc.array(amount, { maxLength: 5 }),
        fc.integer({ min: 0, max: 24 }),
        (sent, limits, decimals) => {
          const policies = limits.map((each, index) => limit(formatAmount(each, decimals), `pol_${index}`));
          const payment = { token: 'X', decimals, amountMinor: sent };
          const result = evaluate({ payment, policies, now });
          expect(result.outcome).toBe(limits.every((each) => sent <= each) ? 'allow' : 'deny');
          expect(result.violations).toHaveLength(limits.filter((each) => sent > each).length);
        },
      ),
    );
  });
});
