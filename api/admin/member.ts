import { z } from 'zod';
import { byOperator } from '../../shared/db/audit.ts';
import { getMember, listMembers } from '../../shared/db/members.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { roles } from '../../shared/domain/access.ts';
import { renderMember } from '../../shared/render-member.ts';
import { unkeyed } from '../idempotency.ts';
import { changeMember, inviteMember, maxMembers, removeMember } from '../operations/change-members.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';
import { accountOption, emailOption, idOption, requireAccount, roleOption } from './options.ts';

const id = idOption('--id', { prefix: 'mbr', what: 'member' });
const role = roleOption;
const inviteOptions = z.object({
  account: accountOption(),
  email: emailOption('--email', { use: 'the address with which they sign in' }),
  role,
});
const listOptions = z.object({ account: accountOption() });
const setOptions = z.object({ id, role });
const removeOptions = z.object({ id });

/** An operator is above every member. */
const changing = (accountId: string) => ({ accountId, userId: null, acting: byOperator(operatorName()) });

export const memberCommands: Commands = {
  'member invite': {
    options: { account: 'acct_…', email: 'EMAIL', role: roles.join('|') },
    required: ['account', 'email', 'role'],
    optionOf: { email: '--email' },
    prepare(values) {
      const { account, ...body } = inviteOptions.parse(values);
      return async ({ pool }) => {
        const { id: accountId } = await requireAccount(pool, { id: account });
        return inviteMember(pool, { ...changing(accountId), body, once: unkeyed });
      };
    },
  },
  'member list': {
    options: { account: 'acct_…' },
    required: ['account'],
    prepare(values) {
      const { account } = listOptions.parse(values);
      return async ({ pool }) => {
        const { id: accountId } = await requireAccount(pool, { id: account });
        const rows = await listMembers(pool, { accountId, limit: maxMembers, offset: 0 });
        return { data: rows.map(renderMember) };
      };
    },
  },
  'member set': {
    options: { id: 'mbr_…', role: roles.join('|') },
    required: ['id', 'role'],
    prepare(values) {
      const { id, role } = setOptions.parse(values);
      return async ({ pool }) => {
        const { account_id: accountId } = await requireMember(pool, { id });
        return (await changeMember(pool, { ...changing(accountId), id, role })) ?? notThere(id);
      };
    },
  },
  'member remove': {
    options: { id: 'mbr_…' },
    required: ['id'],
    prepare(values) {
      const { id } = removeOptions.parse(values);
      return async ({ pool }) => {
        const { account_id: accountId } = await requireMember(pool, { id });
        return (await removeMember(pool, { ...changing(accountId), id })) ? { id, deleted: true } : notThere(id);
      };
    },
  },
};

async function requireMember(db: Queryable, { id }: { id: string }) {
  return (await getMember(db, { id })) ?? notThere(id);
}

function notThere(id: string): never {
  throw new UsageError(`There is no member ${id}.`);
}
