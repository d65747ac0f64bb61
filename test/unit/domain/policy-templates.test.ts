import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { policyKinds } from '../../../shared/domain/policy/engine.ts';
import { builtInTemplates, isBuiltIn } from '../../../shared/domain/policy-templates.ts';

const words = { address: z.string(), token: z.string() };
const templates = builtInTemplates({ owner: 'owner@example.com' });
const rulesOf = (name: string) =>
  templates.find((template) => template.name === name)!.policies.map(({ type, rules }) => [type, rules]);

describe('built-in templates', () => {
  it('hold what was decided', () => {
    const token = 'stablecoins';
    const approval = { approvers: ['owner@example.com'], timeout_seconds: 3600, required_approvals: 1, token };
    const spending = (max_transaction_amount: string, daily_limit: string, monthly_limit: string) => [
      'spending_limit',
      { max_transaction_amount, daily_limit, monthly_limit, token },
    ];
    expect(rulesOf('conservative')).toEqual([
      spending('50', '500', '5000'),
      ['token_control', { allowed_tokens: ['USDC'] }],
      ['velocity_control', { max_count: 10, window_seconds: 3600 }],
      ['human_approval', { threshold: '25', ...approval }],
    ]);
    expect(rulesOf('standard')).toEqual([
      spending('500', '5000', '50000'),
      ['token_control', { allowed_tokens: ['USDC', 'USDT'] }],
      ['velocity_control', { max_count: 100, window_seconds: 3600 }],
      ['human_approval', { threshold: '1000', ...approval }],
    ]);
    expect(rulesOf('permissive')).toEqual([
      spending('5000', '50000', '500000'),
      ['token_control', { allowed_tokens: ['USDC', 'USDT', 'DAI'] }],
      ['velocity_control', { max_count: 1000, window_seconds: 3600 }],
    ]);
  });

  it('are rules that the types themselves take, in the very form in which they are kept', () => {
    for (const { type, rules } of templates.flatMap(({ policies }) => policies))
      expect(policyKinds[type].rules(words).parse(rules)).toEqual(rules);
  });

  it('stand in the order of lists: by age, and none of one instant', () => {
    const ages = templates.map(({ created_at }) => created_at.getTime());
    expect(ages).toEqual([...new Set(ages)].sort((a, b) => b - a));
  });

  it('are found by exactly their names and identifiers', () => {
    for (const { id, name } of templates) expect([isBuiltIn(id), isBuiltIn(name)]).toEqual([true, true]);
    for (const other of [
      'Standard',
      'standard ',
      '',
      'ptpl_',
      'constructor',
      'toString',
      '__proto__',
      'ptpl_ptpl_standard',
    ])
      expect([other, isBuiltIn(other)]).toEqual([other, false]);
  });
});
