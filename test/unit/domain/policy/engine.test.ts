import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAmount } from '../../../../shared/domain/money.ts';
import { evaluate, explainViolation, policyKinds, windowsOf } from '../../../../shared/domain/policy/engine.ts';
import * as table from '../../../../shared/domain/policy/table.ts';
import type { PolicyPayment, StoredPolicy } from '../../../../shared/domain/policy/types.ts';
import { createUsage, type UsageEntry } from '../../../../shared/domain/policy/usage.ts';
import { now, paymentOf, recipient } from './support.ts';

const dayMs = 86_400_000;

function judged(
  policies: readonly StoredPolicy[],
  {
    payment = paymentOf(),
    entries = [],
    defaultDeny = false,
  }: { payment?: PolicyPayment; entries?: readonly UsageEntry[]; defaultDeny?: boolean } = {},
) {
  const usage = createUsage({ windowsMs: windowsOf(policies), entries });
  return evaluate({ payment, policies, usage, now, defaultDeny });
}

const policy = (type: string, rules: unknown, id = 'pol_a'): StoredPolicy => ({ id, type, rules });
const limit = (value: unknown, id = 'pol_a') => policy('spending_limit', { max_transaction_amount: value }, id);
const approval = (threshold: string, id = 'pol_h') =>
  policy(
    'human_approval',
    { threshold, approvers: ['ops@example.com'], timeout_seconds: 3600, required_approvals: 1 },
    id,
  );
const used = (atoms: bigint, oldest: Date | null, windowMs = dayMs, token = 'USDC', count = 1): UsageEntry => ({
  windowMs,
  token,
  atoms,
  count,
  oldest,
});
const atom = 10n ** 36n;

describe('the policy engine', () => {
  it('allows when there is no policy, unless the account denies by default', () => {
    const nothing = { violations: [], approvals: [], warnings: [] };
    expect(judged([])).toEqual({ decision: { outcome: 'allow', ...nothing }, findings: [], demands: [] });
    const { decision } = judged([], { defaultDeny: true });
    expect(decision).toMatchObject({ outcome: 'deny', violations: [{ policy_id: null, rule: 'default_deny' }] });
    expect(explainViolation(decision.violations[0]!)).toContain('default_deny');
    expect(judged([limit('5')], { defaultDeny: true }).decision.outcome).toBe('allow');
  });

  it('lets an amount equal to the limit pass and denies one unit more', () => {
    expect(judged([limit('10')], { payment: paymentOf({ amount: '10' }) }).decision.outcome).toBe('allow');
    const { decision } = judged([limit('10')], { payment: paymentOf({ amount: '10.000001' }) });
    expect(decision).toEqual({
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
      approvals: [],
      warnings: [],
    });
    expect(explainViolation(decision.violations[0]!)).toBe(
      '10.000001 USDC breaks max_transaction_amount 10 of policy pol_a.',
    );
  });

  it.each([6, 18, 36])('reads the limit in units of the token sent, whatever its decimals: %i (F32)', (decimals) => {
    const at = paymentOf({ amount: '1.5', decimals });
    expect(judged([limit('1.5')], { payment: at }).decision.outcome).toBe('allow');
    const over = { ...at, amountMinor: at.amountMinor + 1n };
    expect(judged([limit('1.5')], { payment: over }).decision.outcome).toBe('deny');
  });

  it('compares a limit finer than the smallest unit exactly', () => {
    const payment = paymentOf({ amount: '0.000001' });
    expect(judged([limit('0.0000009')], { payment }).decision.outcome).toBe('deny');
    expect(judged([limit('0.0000011')], { payment }).decision.outcome).toBe('allow');
  });

  it('names every policy that denies, in their order, and keeps what passed', () => {
    const policies = [limit('1', 'pol_a'), limit('5', 'pol_b'), limit('2', 'pol_c')];
    const { decision, findings } = judged(policies, { payment: paymentOf({ amount: '3' }) });
    expect(decision.violations.map(({ policy_id }) => policy_id)).toEqual(['pol_a', 'pol_c']);
    expect(findings.map(({ policy_id, passed }) => [policy_id, passed])).toEqual([
      ['pol_a', false],
      ['pol_b', true],
      ['pol_c', false],
    ]);
  });

  it('denies before it asks a person', () => {
    expect(judged([approval('0'), limit('5')]).decision.outcome).toBe('require_approval');
    const { decision, demands } = judged([approval('0'), limit('0.5')]);
    expect([decision.outcome, decision.approvals]).toEqual(['deny', []]);
    expect(demands).toHaveLength(1);
  });

  it('asks everybody whose threshold is passed, and nobody at the threshold itself', () => {
    const { decision } = judged([approval('0.999999', 'pol_x'), approval('1', 'pol_y'), approval('0', 'pol_z')]);
    expect(decision).toMatchObject({ outcome: 'require_approval', violations: [] });
    expect(decision.approvals.map(({ policy_id }) => policy_id)).toEqual(['pol_x', 'pol_z']);
    expect(decision.approvals[0]).toEqual({
      policy_id: 'pol_x',
      threshold: '0.999999',
      approvers: ['ops@example.com'],
      timeout_seconds: 3600,
      required_approvals: 1,
    });
  });

  it.each([
    ['a type it does not know', policy('weather', {})],
    ['a type named like an inherited member', policy('toString', {})],
    ['a type that is no type', policy('__proto__', {})],
    ['rules that are null', policy('spending_limit', null)],
    ['rules without the member', policy('spending_limit', {})],
    ['rules with a member too many', policy('velocity_control', { max_count: 1, window_seconds: 1, daily_limit: '1' })],
    ['a limit that is a number', limit(10)],
    ['a limit that is no decimal', limit('1e3')],
    ['a list that is none', policy('address_control', { allowed_addresses: recipient })],
    ['a zone that is none', policy('schedule', { timezone: 'Mars/Olympus', allowed_days: [1] })],
    [
      'more approvals than approvers',
      policy('human_approval', { threshold: '1', approvers: [], required_approvals: 1 }),
    ],
  ])('denies when a policy has %s', (_what, unreadable) => {
    const { decision } = judged([unreadable], { payment: paymentOf({ amount: '0.000001' }) });
    expect(decision).toMatchObject({
      outcome: 'deny',
      violations: [{ policy_id: 'pol_a', rule: 'engine', limit: null, attempted: '0.000001' }],
    });
    expect(explainViolation(decision.violations[0]!)).toContain('pol_a');
  });

  it('denies when the usage that a policy needs was not read', () => {
    const policies = [policy('velocity_control', { max_count: 5, window_seconds: 60 })];
    const usage = createUsage({ windowsMs: [], entries: [] });
    const { decision } = evaluate({ payment: paymentOf(), policies, usage, now, defaultDeny: false });
    expect(decision).toMatchObject({ outcome: 'deny', violations: [{ rule: 'engine' }] });
  });

  it('asks for each window once, and for none of a policy that cannot be read', () => {
    const policies = [
      policy('spending_limit', { daily_limit: '1', monthly_limit: '2' }),
      policy('spending_limit', { daily_limit: '3' }),
      policy('velocity_control', { max_count: 5, window_seconds: 86_400 }),
      policy('velocity_control', { max_count: 5, window_seconds: 7 }),
      policy('velocity_control', { max_count: 5, window_seconds: '9' }),
    ];
    expect(windowsOf(policies).sort((a, b) => a - b)).toEqual([7000, dayMs, 30 * dayMs]);
  });

  it('counts what was used in a window, the stablecoins together, and says when something gets free', () => {
    const policies = [policy('spending_limit', { daily_limit: '10' })];
    const oldest = new Date(now.getTime() - dayMs + 1);
    const entries = [used(5n * atom, oldest), used(4n * atom, null, dayMs, 'DAI'), used(99n * atom, now, dayMs, 'ETH')];
    expect(judged(policies, { entries }).decision.outcome).toBe('allow');
    const { decision } = judged(policies, { entries, payment: paymentOf({ amount: '1.000001' }) });
    expect(decision.violations).toMatchObject([
      {
        rule: 'daily_limit',
        attempted: '1.000001',
        used: '9',
        remaining: '1',
        resets_at: new Date(now.getTime() + 1).toISOString(),
      },
    ]);
  });

  it('names no instant to wait for where waiting cannot help', () => {
    const policies = [policy('spending_limit', { daily_limit: '10' })];
    const resets = (amount: string, entries: UsageEntry[]) =>
      judged(policies, { entries, payment: paymentOf({ amount }) }).findings[0]?.resets_at;
    expect(resets('11', [used(atom, now)])).toBeNull();
    expect(resets('10', [used(atom, now)])).toBe(new Date(now.getTime() + dayMs).toISOString());
    expect(resets('10', [used(atom, null)])).toBeNull();
    expect(resets('1', [])).toBeNull();
  });

  it('counts payments of every token in the window of a velocity', () => {
    const policies = [policy('velocity_control', { max_count: 10, window_seconds: 60 })];
    const oldest = new Date(now.getTime() - 59_000);
    const entries = [used(1n, oldest, 60_000, 'USDC', 4), used(1n, null, 60_000, 'ETH', 5)];
    expect(judged(policies, { entries }).decision.outcome).toBe('allow');
    const { decision } = judged(policies, { entries: [...entries, used(1n, now, 60_000, 'DAI')] });
    expect(decision.violations).toMatchObject([
      {
        rule: 'max_count',
        limit: '10',
        attempted: '1',
        used: '10',
        remaining: '0',
        resets_at: new Date(now.getTime() + 1000).toISOString(),
      },
    ]);
  });

  it('binds a rule to its token, and warns where none is named', () => {
    const eth = paymentOf({ token: 'ETH', decimals: 18, amount: '50' });
    const bound = (token: string) => policy('spending_limit', { max_transaction_amount: '1', token });
    for (const token of ['USDC', 'stablecoins'])
      expect(judged([bound(token)], { payment: eth })).toMatchObject({ decision: { outcome: 'allow' }, findings: [] });
    expect(judged([bound('ETH')], { payment: eth }).decision).toMatchObject({ outcome: 'deny', warnings: [] });
    for (const unbound of [limit('100'), approval('100', 'pol_a')])
      expect(judged([unbound], { payment: eth }).decision.warnings).toMatchObject([
        { code: 'limit_without_token', policy_id: 'pol_a' },
      ]);
    expect(judged([limit('100'), approval('100')]).decision.warnings).toEqual([]);
  });

  it('pays only who is allowed, and never who is blocked', () => {
    const other = '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf';
    const outcome = (rules: unknown, toAddress = recipient) =>
      judged([policy('address_control', rules)], { payment: paymentOf({ toAddress }) }).decision.outcome;
    expect(outcome({ allowed_addresses: [other, recipient] })).toBe('allow');
    expect(outcome({ allowed_addresses: [other] })).toBe('deny');
    expect(outcome({ blocked_addresses: [other] })).toBe('allow');
    expect(outcome({ blocked_addresses: [other, recipient] })).toBe('deny');
    // Two policies: one allows, the other blocks.
    const both = [
      policy('address_control', { allowed_addresses: [recipient] }),
      policy('address_control', { blocked_addresses: [recipient] }, 'pol_b'),
    ];
    expect(judged(both).decision).toMatchObject({
      outcome: 'deny',
      violations: [{ policy_id: 'pol_b', rule: 'blocked_addresses', attempted: recipient, used: null }],
    });
  });

  it.each([recipient, 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'])(
    'knows %s by its one written form',
    (toAddress) => {
      const outcome = (allowed: string) =>
        judged([policy('address_control', { allowed_addresses: [allowed] })], { payment: paymentOf({ toAddress }) })
          .decision.outcome;
      expect(outcome(toAddress)).toBe('allow');
      const other = toAddress === toAddress.toLowerCase() ? toAddress.toUpperCase() : toAddress.toLowerCase();
      expect(outcome(other)).toBe('deny');
    },
  );

  it('sends only the tokens that are allowed', () => {
    const { decision } = judged([policy('token_control', { allowed_tokens: ['USDT', 'DAI'] })]);
    expect(decision.violations).toMatchObject([{ rule: 'allowed_tokens', limit: 'USDT, DAI', attempted: 'USDC' }]);
    expect(judged([policy('token_control', { allowed_tokens: ['USDC'] })]).decision.outcome).toBe('allow');
  });

  it('knows exactly the types of the table', () => {
    expect(Object.keys(policyKinds).sort()).toEqual(Object.keys(table).sort());
    for (const type of Object.keys(table)) {
      const { decision } = judged([policy(type, {})]);
      expect(decision.violations).toMatchObject([{ policy_type: type, rule: 'engine' }]);
    }
  });

  it('allows exactly the amounts up to the lowest limit', () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 30n });
    fc.assert(
      fc.property(
        amount,
        fc.array(amount, { maxLength: 5 }),
        fc.constantFrom(6, 18, 36),
        (amountMinor, limits, decimals) => {
          const policies = limits.map((each, index) => limit(formatAmount(each, decimals), `pol_${index}`));
          const payment = { ...paymentOf(), decimals, amountMinor };
          const { decision } = judged(policies, { payment });
          expect(decision.outcome).toBe(limits.every((each) => amountMinor <= each) ? 'allow' : 'deny');
          expect(decision.violations).toHaveLength(limits.filter((each) => amountMinor > each).length);
        },
      ),
    );
  });

  it('allows exactly what the window has left, in atoms of any token', () => {
    const atoms = fc.bigInt({ min: 0n, max: 3n });
    fc.assert(
      fc.property(
        atoms,
        atoms,
        fc.bigInt({ min: 1n, max: 3n }),
        fc.bigInt({ min: 1n, max: 9n }),
        (a, b, sent, most) => {
          const policies = [policy('spending_limit', { daily_limit: formatAmount(most, 36) })];
          const entries = [used(a, now), used(b, null, dayMs, 'USDT')];
          const payment = { ...paymentOf(), decimals: 36, amountMinor: sent };
          const { decision } = judged(policies, { payment, entries });
          expect(decision.outcome).toBe(a + b + sent <= most ? 'allow' : 'deny');
        },
      ),
    );
  });
});
