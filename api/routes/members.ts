import { countMembers, findMember, listMembers } from '../../shared/db/members.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import { renderMember } from '../../shared/render-member.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { changeMember, inviteMember, removeMember } from '../operations/change-members.ts';
import { readPage } from '../read-page.ts';
import {
  inviteMemberBody,
  listMembersQuery,
  member,
  memberList,
  removedMember,
  updateMemberBody,
} from '../schemas/members.ts';

const tag = 'Account';

/** Endpoints of the people of an account; for people only. */
export function createMemberEndpoints({ pool }: { pool: Pool }): Endpoint[] {
  const find = async ({ caller: { accountId }, id }: { caller: Caller; id: string }) =>
    isId('mbr', id) ? findMember(pool, { id, accountId }) : undefined;
  return [
    defineEndpoint({
      method: 'get',
      path: '/account/members',
      operationId: 'listMembers',
      tag,
      summary: 'List members',
      description: 'Who belongs to the account and who is invited to, newest first.',
      query: listMembersQuery,
      answer: memberList,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, query }) =>
        readPage({
          page: query,
          count: () => countMembers(pool, { accountId }),
          list: (window) => listMembers(pool, { accountId, ...window }),
          render: renderMember,
        }),
    }),
    defineEndpoint({
      method: 'post',
      path: '/account/members',
      operationId: 'inviteMember',
      tag,
      summary: 'Invite somebody',
      description:
        'Whoever signs in with the address, verified by the identity provider, becomes the member; no mail is sent. Only an owner invites owners. An account has at most 1,000 members: 403.',
      body: inviteMemberBody,
      answer: member,
      errors: ['invalid_request'],
      handle: ({ caller, acting, body, once }) => inviteMember(pool, { ...changingBy(caller), acting, body, once }),
    }),
    defineEndpoint({
      method: 'put',
      path: '/account/members/{id}',
      operationId: 'updateMember',
      tag,
      summary: "Change a member's role",
      description:
        'It counts at the next request. Only an owner makes and unmakes owners. The last owner who has joined stays one: 400.',
      body: updateMemberBody,
      answer: member,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ caller, acting, found: { id }, body: { role } }) => {
        const changed = await changeMember(pool, { ...changingBy(caller), acting, id, role });
        if (!changed) throw gone(id);
        return changed;
      },
    }),
    defineEndpoint({
      method: 'delete',
      path: '/account/members/{id}',
      operationId: 'removeMember',
      tag,
      summary: 'Remove a member',
      description:
        'Their sessions for this account end at once; an invitation is taken back. Only an owner removes owners. The last owner who has joined stays: 400. A second time: 404.',
      answer: removedMember,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ caller, acting, found: { id } }) => {
        if (!(await removeMember(pool, { ...changingBy(caller), acting, id }))) throw gone(id);
        return { id, deleted: true };
      },
    }),
  ];
}

/** Keys are not let in here. */
function changingBy({ accountId, user }: Caller): { accountId: string; userId: string } {
  return { accountId, userId: user!.id };
}

/** Removed by somebody else between being found and being changed. */
function gone(id: string): PurserError {
  return new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
}
