import { z } from 'zod';
import { amount, chainId } from './common.ts';

/** Chains for which an account names a funding agent, at most. */
const maxTopUps = 20;
const maxPerDay = 1_000;
const usualPerDay = 10;

const members = {
  chain: chainId,
  funding_agent_id: z.string().meta({
    description:
      'Agent of the account that pays, by ordinary payments: its own policies, limits and approvals count. Itself it is never filled up.',
    example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
  }),
  amount: amount({ description: "Of the chain's own coin, for each top-up.", example: '0.002' }),
};
const perDay = z
  .int()
  .refine((count) => count >= 1 && count <= maxPerDay, { error: `must be a whole number from 1 to ${maxPerDay}.` })
  .meta({
    description: 'Top-ups on this chain in any 24 hours, of all wallets of the account together.',
    example: usualPerDay,
    minimum: 1,
    maximum: maxPerDay,
  });

const description =
  'By chain, the agent that sends coins for fees to agents of the account that hold tokens and are low on them. Empty: nobody does.';

/** As it is set: the whole list, which takes the place of the one before. */
export const gasTopUpsBody = z
  .array(z.strictObject({ ...members, max_per_day: perDay.default(usualPerDay) }))
  .refine((given) => given.length <= maxTopUps, { error: `must have at most ${maxTopUps} entries.` })
  .refine((given) => new Set(given.map(({ chain }) => chain)).size === given.length, {
    error: 'must name each chain once.',
  })
  .meta({
    description,
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) =>
      void Object.assign(jsonSchema, { maxItems: maxTopUps }),
  });

export const gasTopUps = z.array(z.object({ ...members, max_per_day: perDay })).meta({ description });
