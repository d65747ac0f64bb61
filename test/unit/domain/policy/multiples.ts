import { z } from 'zod';
import type { PolicyKind } from '../../../../shared/domain/policy/types.ts';

/** What a further file would have: nothing lets a payment pass whose amount in minor units is not a multiple. */
export const multiples: PolicyKind<{ readonly of: number }> = {
  description: 'Only whole multiples may be sent.',
  rules: () => z.strictObject({ of: z.number() }),
  windowsMs: () => [7],
  judge: ({ of }, { payment }) => {
    const passed = payment.amountMinor % BigInt(of) === 0n;
    const told = { limit: String(of), attempted: String(payment.amountMinor) };
    return { checks: [{ rule: 'of', ...told, used: null, remaining: null, resets_at: null, passed }] };
  },
  explain: ({ attempted, limit }) => `${attempted} is no multiple of ${limit}.`,
};
