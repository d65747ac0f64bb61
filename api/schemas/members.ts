import { z } from 'zod';
import { roles } from '../../shared/domain/access.ts';
import { emailAddress, instant, listOf, pageParameters } from './common.ts';

const memberId = z.string().meta({ description: 'Identifier, `mbr_…`.', example: 'mbr_01kahvd1r0fv2t5c7m4y2q8s3z' });

const role = z.enum(roles).meta({
  description:
    'What they may do: a viewer reads, an approver decides payments, an admin does everything but make and unmake owners.',
  example: 'approver',
});

export const inviteMemberBody = z.strictObject({
  email: emailAddress('Whoever signs in with this address, verified by the identity provider, becomes the member.'),
  role,
});
export type InviteMemberBody = z.output<typeof inviteMemberBody>;

export const updateMemberBody = z.strictObject({ role });

export const listMembersQuery = z.strictObject(pageParameters);

export const member = z
  .object({
    id: memberId,
    email: z.string().meta({ description: 'To which they were invited; lower case.', example: 'ops@example.com' }),
    role,
    status: z.enum(['invited', 'active']).meta({
      description: '`invited`: nobody has signed in with the address yet.',
      example: 'active',
    }),
    user_id: z.string().nullable().meta({
      description: 'Identifier of the person, `user_…`; null while invited.',
      example: 'user_01kahvd1r0fv2t5c7m4y2q8s3z',
    }),
    created_at: instant,
    joined_at: instant.nullable().meta({ description: 'Null while invited.' }),
  })
  .meta({ id: 'Member', description: 'Somebody who belongs to the account, or is invited to.' });

export const memberList = listOf(member, 'Member');

export const removedMember = z
  .object({ id: memberId, deleted: z.literal(true) })
  .meta({ id: 'RemovedMember', description: 'Who was removed.' });
