import type { PolicyType } from './policy/engine.ts';
import { stablecoins } from './policy/tokens.ts';

/** A policy as a template holds it: not yet an agent's. */
export interface TemplatePolicy {
  readonly type: PolicyType;
  /** As validated when written. */
  readonly rules: Readonly<Record<string, unknown>>;
}

/** A set of policies to be copied to agents. */
export interface PolicyTemplate {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  /** Part of the program: the same for every account, and read-only. */
  readonly built_in: boolean;
  readonly policies: readonly TemplatePolicy[];
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** The numbers of a built-in template; amounts in units of the stablecoin that is sent. */
interface Level {
  readonly description: string;
  readonly maxTransactionAmount: string;
  readonly dailyLimit: string;
  readonly monthlyLimit: string;
  readonly tokens: readonly string[];
  readonly maxCountAnHour: number;
  /** A larger payment needs the owner's approval; undefined where none does. */
  readonly approvalAbove?: string;
}

const levels = {
  conservative: {
    description: 'Small amounts of USDC; the owner approves what is above 25.',
    maxTransactionAmount: '50',
    dailyLimit: '500',
    monthlyLimit: '5000',
    tokens: ['USDC'],
    maxCountAnHour: 10,
    approvalAbove: '25',
  },
  standard: {
    description: 'Everyday amounts of USDC and USDT; the owner approves what is above 1000.',
    maxTransactionAmount: '500',
    dailyLimit: '5000',
    monthlyLimit: '50000',
    tokens: ['USDC', 'USDT'],
    maxCountAnHour: 100,
    approvalAbove: '1000',
  },
  permissive: {
    description: 'Large amounts of USDC, USDT and DAI without approval.',
    maxTransactionAmount: '5000',
    dailyLimit: '50000',
    monthlyLimit: '500000',
    tokens: ['USDC', 'USDT', 'DAI'],
    maxCountAnHour: 1000,
  },
} satisfies Record<string, Level>;

/** Older than every account, and one millisecond apart, so that lists by age have one order: the one above. */
const firstWrittenMs = Date.UTC(2026, 1, 10);

/**
 * The templates that are part of the program, in the order of lists.
 * @param owner e-mail address of the account's owner, who approves; null leaves the approvers empty
 */
export function builtInTemplates({ owner }: { owner: string | null }): readonly PolicyTemplate[] {
  const entries: [string, Level][] = Object.entries(levels);
  return entries.map(([name, level], index) => {
    const written = new Date(firstWrittenMs + entries.length - 1 - index);
    return {
      id: `ptpl_${name}`,
      name,
      description: level.description,
      built_in: true,
      policies: policiesOf(level, { approvers: owner === null ? [] : [owner] }),
      created_at: written,
      updated_at: written,
    };
  });
}

/** Whether a name in a path or a body means a built-in template; so does its identifier. */
export function isBuiltIn(nameOrId: string): boolean {
  return Object.hasOwn(levels, nameOrId.replace(/^ptpl_/, ''));
}

/** Every member is stated, defaults too: what is applied is what is shown. */
function policiesOf(level: Level, { approvers }: { approvers: readonly string[] }): TemplatePolicy[] {
  return [
    {
      type: 'spending_limit',
      rules: {
        max_transaction_amount: level.maxTransactionAmount,
        daily_limit: level.dailyLimit,
        monthly_limit: level.monthlyLimit,
        token: stablecoins,
      },
    },
    { type: 'token_control', rules: { allowed_tokens: level.tokens } },
    { type: 'velocity_control', rules: { max_count: level.maxCountAnHour, window_seconds: 3600 } },
    ...(level.approvalAbove === undefined ? [] : [approvalAbove(level.approvalAbove, approvers)]),
  ];
}

function approvalAbove(threshold: string, approvers: readonly string[]): TemplatePolicy {
  return {
    type: 'human_approval',
    rules: { threshold, approvers, timeout_seconds: 3600, required_approvals: 1, token: stablecoins },
  };
}
