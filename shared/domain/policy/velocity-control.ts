import { resetOf } from './reset-of.ts';
import { rulesOf, wholeNumber } from './rule-fields.ts';
import type { PolicyKind } from './types.ts';

const maxWindowSeconds = 31_536_000;
const maxMaxCount = 1_000_000;

interface VelocityControlRules {
  readonly max_count: number;
  readonly window_seconds: number;
}

/** Bounds how many payments are accepted in a sliding window, of whatever token. */
export const velocityControl: PolicyKind<VelocityControlRules> = {
  description: 'Highest number of payments in any window of the given length.',
  rules: () =>
    rulesOf({
      max_count: wholeNumber({ min: 1, max: maxMaxCount, description: 'Payments in the window at most.' }),
      window_seconds: wholeNumber({
        min: 1,
        max: maxWindowSeconds,
        description: 'Length of the sliding window in seconds.',
      }),
    }),
  windowsMs: ({ window_seconds }) => [window_seconds * 1000],
  judge({ max_count, window_seconds }, { usage, now }) {
    const windowMs = window_seconds * 1000;
    const { count, oldest } = usage.within(windowMs);
    return {
      checks: [
        {
          rule: 'max_count',
          limit: String(max_count),
          attempted: '1',
          used: String(count),
          remaining: String(Math.max(max_count - count, 0)),
          resets_at: resetOf({ oldest, windowMs, now }),
          passed: count + 1 <= max_count,
        },
      ],
    };
  },
  explain: ({ policy_id, limit, used }) =>
    `One payment more breaks max_count ${limit} of policy ${policy_id}: its window has ${used} already.`,
};
