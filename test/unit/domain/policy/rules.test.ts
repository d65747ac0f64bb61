import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { policyKinds } from '../../../../shared/domain/policy/engine.ts';
import type * as table from '../../../../shared/domain/policy/table.ts';
import { recipient, words } from './support.ts';

type Type = keyof typeof table;

/** What is stored of the rules, or where the first fault is and which code it has. */
function written(type: Type, rules: unknown) {
  const result = policyKinds[type].rules(words).safeParse(rules);
  if (result.success) return JSON.parse(JSON.stringify(result.data)) as unknown;
  const [issue] = result.error.issues;
  return [issue?.path.join('.'), issue?.code === 'custom' ? issue.params?.code : undefined];
}

const other = '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf';
const lower = recipient.toLowerCase();
const upper = `0x${recipient.slice(2).toUpperCase()}`;
const approvers = ['ops@example.com'];

describe('rules as they are written', () => {
  it.each([
    ['its checksum', recipient],
    ['lower case', lower],
    ['upper case', upper],
  ])('take an address in %s, and keep it with its checksum', (_what, address) => {
    for (const list of ['allowed_addresses', 'blocked_addresses'])
      expect(written('address_control', { [list]: [address] })).toEqual({ [list]: [recipient] });
  });

  it.each([
    ['a wrong checksum', recipient.replace('B', 'b')],
    ['0X', `0X${recipient.slice(2)}`],
    ['no 0x', recipient.slice(2)],
    ['a space before', ` ${recipient}`],
    ['a space behind', `${recipient} `],
    ['a newline behind', `${recipient}\n`],
    ['a digit less', recipient.slice(0, -1)],
    ['a digit more', `${recipient}0`],
    ['a name of ENS', 'vitalik.eth'],
    ['a Cyrillic а', lower.replace('a', 'а')],
    ['a Cyrillic е', lower.replace('e', 'е')],
    ['a Cyrillic с', lower.replace('c', 'с')],
    ['a Cyrillic о for a zero', lower.replace(/0(?!x)/, 'о')],
    ['a Cyrillic х', lower.replace('x', 'х')],
    ['full-width digits', lower.replace('2', '２')],
    ['the value zero', `0x${'0'.repeat(40)}`],
    ['an address of Tron', 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8'],
    ['nothing', ''],
  ])('refuse an address with %s', (_what, address) => {
    expect(address).not.toBe(recipient);
    for (const list of ['allowed_addresses', 'blocked_addresses'])
      expect(written('address_control', { [list]: [other, address] })).toEqual([`${list}.1`, 'invalid_address']);
  });

  it('merge an address that is repeated in another form, and refuse one that is in both lists', () => {
    expect(written('address_control', { allowed_addresses: [lower, other, recipient, upper] })).toEqual({
      allowed_addresses: [recipient, other],
    });
    expect(written('address_control', { allowed_addresses: [lower], blocked_addresses: [other, upper] })).toEqual([
      'blocked_addresses.1',
      undefined,
    ]);
  });

  it('take at most 1000 addresses', () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, index) => `0x${String(index + 1).padStart(40, '0')}`);
    expect(written('address_control', { blocked_addresses: many(1001) })).toEqual(['blocked_addresses', undefined]);
    expect(written('address_control', { blocked_addresses: many(1000) })).toHaveProperty('blocked_addresses.999');
  });

  it('take tokens in any case, keep them in capitals, and refuse those that no chain here has', () => {
    expect(written('token_control', { allowed_tokens: ['usdc', 'USDC', 'bnb'] })).toEqual({
      allowed_tokens: ['USDC', 'BNB'],
    });
    for (const token of ['WETH', '', 'USDC ', 'stablecoins', 'USDС'])
      expect(written('token_control', { allowed_tokens: ['USDC', token] })).toEqual([
        'allowed_tokens.1',
        'invalid_token',
      ]);
  });

  it('bind limits and thresholds to a token or to the stablecoins', () => {
    for (const [token, kept] of [
      ['eth', 'ETH'],
      ['stablecoins', 'stablecoins'],
    ]) {
      expect(written('spending_limit', { daily_limit: '1', token })).toEqual({ daily_limit: '1', token: kept });
      expect(written('human_approval', { threshold: '1', approvers, token })).toMatchObject({ token: kept });
    }
    expect(written('spending_limit', { daily_limit: '1', token: 'WETH' })).toEqual(['token', 'invalid_token']);
    expect(written('spending_limit', { token: 'ETH' })).toEqual(['', undefined]);
  });

  it('keep amounts in canonical form, and refuse what is none', () => {
    expect(
      written('spending_limit', { max_transaction_amount: '1.50', daily_limit: '10.0', monthly_limit: '100' }),
    ).toEqual({ max_transaction_amount: '1.5', daily_limit: '10', monthly_limit: '100' });
    for (const rule of ['max_transaction_amount', 'daily_limit', 'monthly_limit'])
      for (const value of ['0', '0.00', '-1', '1e3', '', ' 1', '01', '.5', `0.${'0'.repeat(36)}1`])
        expect(written('spending_limit', { [rule]: value })).toEqual([rule, 'invalid_amount']);
  });

  it('keep what a person is asked with explicitly, and the approvers merged in lower case', () => {
    expect(written('human_approval', { threshold: '0', approvers: ['Ops@Example.com', 'ops@example.com'] })).toEqual({
      threshold: '0',
      approvers,
      timeout_seconds: 3600,
      required_approvals: 1,
    });
    expect(
      written('human_approval', { threshold: '1', approvers: ['A@b.co', 'a@B.co'], required_approvals: 2 }),
    ).toEqual(['required_approvals', undefined]);
    const many = (count: number) => Array.from({ length: count }, (_, index) => `a${index}@example.com`);
    expect(written('human_approval', { threshold: '1', approvers: many(50), required_approvals: 50 })).toMatchObject({
      required_approvals: 50,
    });
    expect(written('human_approval', { threshold: '1', approvers: many(51) })).toEqual(['approvers', undefined]);
    for (const approver of [
      'ops',
      'ops@',
      '@example.com',
      'a b@example.com',
      'оps@example.com',
      `${'a'.repeat(250)}@b.co`,
    ])
      expect(written('human_approval', { threshold: '1', approvers: [approver] })).toEqual(['approvers.0', undefined]);
  });

  it('say the same with null as without the member, where it may be left out', () => {
    expect(written('human_approval', { threshold: '1', approvers, timeout_seconds: null, token: null })).toMatchObject({
      timeout_seconds: 3600,
    });
    expect(written('spending_limit', { daily_limit: '1', monthly_limit: null })).toEqual({ daily_limit: '1' });
    expect(written('spending_limit', { daily_limit: null })).toEqual(['', undefined]);
    expect(written('human_approval', { threshold: null, approvers })).toEqual(['threshold', undefined]);
    expect(written('spending_limit', { daily_limit: '1', max_count: null })).toEqual(['', undefined]);
  });

  it.each([
    ['human_approval', { threshold: '1', approvers }, 'timeout_seconds', 60, 604_800],
    ['velocity_control', { max_count: 1, window_seconds: 1 }, 'window_seconds', 1, 31_536_000],
    ['velocity_control', { max_count: 1, window_seconds: 1 }, 'max_count', 1, 1_000_000],
  ] as const)('%s %o takes %s from %i to %i', (type, rules, member, min, max) => {
    for (const value of [min, max])
      expect(written(type, { ...rules, [member]: value })).toMatchObject({ [member]: value });
    for (const value of [min - 1, max + 1, min + 0.5, -min, String(min), Number.POSITIVE_INFINITY, Number.NaN])
      expect(written(type, { ...rules, [member]: value })).toEqual([member, undefined]);
  });

  it.each(Object.keys(policyKinds) as Type[])('of type %s refuse emptiness and every other shape', (type) => {
    for (const rules of [{}, null, [], '', 1, undefined, { unknown: 1 }]) {
      expect(policyKinds[type].rules(words).safeParse(rules).success).toBe(false);
    }
  });

  it('of any type are read back as they were kept', () => {
    const valid: Record<Type, unknown> = {
      address_control: { allowed_addresses: [lower], blocked_addresses: [other] },
      human_approval: { threshold: '1.50', approvers: ['A@b.co'], token: 'usdc' },
      schedule: { timezone: 'Asia/Kathmandu', allowed_hours: { start: 22, end: 6 }, allowed_days: [7, 0] },
      spending_limit: { daily_limit: '1.0', token: 'eth' },
      token_control: { allowed_tokens: ['usdc'] },
      velocity_control: { max_count: 1, window_seconds: 1 },
    };
    for (const type of Object.keys(valid) as Type[]) {
      const kept = written(type, valid[type]);
      expect(written(type, kept)).toEqual(kept);
    }
  });

  it('never throw, whatever is written', () => {
    const member = fc.constantFrom(
      'allowed_addresses',
      'allowed_days',
      'allowed_hours',
      'timezone',
      'token',
      'approvers',
    );
    const rules = fc.oneof(fc.anything(), fc.dictionary(member, fc.anything()));
    fc.assert(
      fc.property(fc.constantFrom(...(Object.keys(policyKinds) as Type[])), rules, (type, each) => {
        expect(() => policyKinds[type].rules(words).safeParse(each)).not.toThrow();
      }),
      { numRuns: 500 },
    );
  });
});
