import { z } from 'zod';
import { freezeScopes } from '../../shared/domain/freeze.ts';
import { instant, optional, text } from './common.ts';

/** What is stored where nobody gives a reason. */
export const noReason = 'no reason was given';

const nothingSigned = 'Nothing new is signed while it is frozen; what was signed is followed to its end.';

/** Members of a body that freezes or lifts that. */
export const freezeMembers = {
  frozen: optional(
    z.boolean().meta({
      description: `\`true\` freezes, \`false\` lifts that; payments that wait go on then. ${nothingSigned}`,
      example: true,
    }),
  ),
  freeze_reason: optional(
    text({
      minLength: 1,
      maxLength: 256,
      description: 'Why; for whoever reads it later. Only with `frozen: true`.',
      example: 'We look into payments that nobody knows of.',
    }),
  ),
};

/** @returns whether a reason comes without a freeze */
export const isReasonAlone = (given: { frozen?: boolean | undefined; freeze_reason?: string | undefined }): boolean =>
  given.freeze_reason !== undefined && given.frozen !== true;
export const reasonAlone = { error: 'must come with frozen: true.', path: ['freeze_reason'] };

/** Members of an answer that say whether something is frozen. */
export const frozenMembers = {
  frozen: z
    .boolean()
    .meta({ description: `Whether it is frozen, or something wider is. ${nothingSigned}`, example: false }),
  freeze: z
    .object({
      scope: z.enum(freezeScopes).meta({ description: 'What is frozen, the widest that counts.', example: 'account' }),
      reason: z.string().meta({ example: 'We look into payments that nobody knows of.' }),
      frozen_by: z.string().meta({
        description: 'Person or API key; `operator` and `system`: whoever runs this installation, who alone lift it.',
        example: 'user_01kahvd1r0fv2t5c7m4y2q8s3z',
      }),
      frozen_at: instant,
    })
    .nullable()
    .meta({ description: 'How it is frozen; null unless it is.', example: null }),
};
