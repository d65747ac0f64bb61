import { lockAccount } from '../../shared/db/accounts.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import {
  countJoinedOwners,
  countMembers,
  deleteMember,
  findMember,
  findRole,
  insertMember,
  type MemberRow,
  setMemberRole,
} from '../../shared/db/members.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import type { Role } from '../../shared/domain/access.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderMember } from '../../shared/render-member.ts';
import type { Once } from '../idempotency.ts';
import type { InviteMemberBody } from '../schemas/members.ts';
import { endSessions } from './end-sessions.ts';

// Each of these is one database transaction with its audit entry. All of them take the account's lock, so that of owners
// who unmake each other at once one is left.

/** Members of an account at most, invitations included. */
export const maxMembers = 1_000;

/** Who changes the members of an account. */
interface Changing {
  readonly accountId: string;
  readonly acting: Acting;
  /** A member, who makes and unmakes owners only as one; null for an operator of the installation. */
  readonly userId: string | null;
}

/**
 * Invites an address.
 * @returns the member as on the wire
 * @throws PurserError 400 for one that belongs to the account or is invited already; 403 for an owner by somebody who is
 *   none, and when the account has 1,000 members
 */
export function inviteMember(
  pool: Pool,
  { body, once, ...changing }: Changing & { body: InviteMemberBody; once: Once },
) {
  const { accountId, acting } = changing;
  const { email, role } = body;
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    await lockAccount(db, { id: accountId });
    await requireMayChange(db, changing, [role]);
    const isFull = (await countMembers(db, { accountId })) >= maxMembers;
    const row = isFull ? undefined : await insertMember(db, { accountId, email, role });
    if (isFull) throw tooMany();
    if (!row) throw taken(email);
    const answer = renderMember(row);
    await noteMember(db, { action: 'member.invited', acting, row, changes: { before: null, after: answer } });
    await once.answer(db, answer);
    return answer;
  });
}

/**
 * Gives a member another role; it counts at their next request.
 * @returns the member as on the wire; undefined where it was removed meanwhile
 * @throws PurserError 400 for the last owner; 403 as `inviteMember`
 */
export function changeMember(pool: Pool, { id, role, ...changing }: Changing & { id: string; role: Role }) {
  const { accountId, acting } = changing;
  return inTransaction(pool, async (db) => {
    await lockAccount(db, { id: accountId });
    const before = await findMember(db, { id, accountId });
    if (!before) return undefined;
    await requireMayChange(db, changing, [before.role, role]);
    if (before.role === role) return renderMember(before);
    await requireOwnerLeft(db, { member: before, param: 'role' });
    const row = await setMemberRole(db, { id, role });
    if (!row) return undefined;
    const changes = { before: renderMember(before), after: renderMember(row) };
    await noteMember(db, { action: 'member.updated', acting, row, changes });
    return changes.after;
  });
}

/**
 * Removes a member, or takes an invitation back; whoever it was is signed out of the account at once.
 * @returns whether this call did
 * @throws PurserError as `changeMember`
 */
export function removeMember(pool: Pool, { id, ...changing }: Changing & { id: string }): Promise<boolean> {
  const { accountId, acting } = changing;
  return inTransaction(pool, async (db) => {
    await lockAccount(db, { id: accountId });
    const before = await findMember(db, { id, accountId });
    if (!before) return false;
    await requireMayChange(db, changing, [before.role]);
    await requireOwnerLeft(db, { member: before });
    // Who is just joining has done so by now, or never will.
    const row = await deleteMember(db, { id });
    if (!row) return false;
    await noteMember(db, {
      action: 'member.removed',
      acting,
      row,
      changes: { before: renderMember(row), after: null },
    });
    if (row.user_id !== null)
      await endSessions(db, { accountId, userId: row.user_id, reason: 'member_removed', acting });
    return true;
  });
}

/** Judged by what the person is now, under the lock: they may have been unmade since they asked. */
async function requireMayChange(
  db: Queryable,
  { accountId, userId }: Changing,
  touched: readonly Role[],
): Promise<void> {
  if (userId === null) return;
  const role = await findRole(db, { accountId, userId });
  if (role === 'owner' || (role === 'admin' && !touched.includes('owner'))) return;
  throw new PurserError(
    'insufficient_permissions',
    role === 'admin'
      ? 'Only an owner makes, changes or removes owners; you are admin of this account.'
      : `This needs the role admin; you are ${role ?? 'no member'} of this account.`,
  );
}

async function requireOwnerLeft(
  db: Queryable,
  { member: { account_id: accountId, email, role, user_id: userId }, param }: { member: MemberRow; param?: string },
): Promise<void> {
  const isOwner = role === 'owner' && userId !== null;
  if (!isOwner || (await countJoinedOwners(db, { accountId })) > 1) return;
  const message = `${email} is the last owner of this account. Make somebody else an owner first, one who has signed in.`;
  throw new PurserError('invalid_request', message, { param });
}

function noteMember(
  db: Queryable,
  {
    row,
    ...entry
  }: {
    action: 'member.invited' | 'member.updated' | 'member.removed';
    acting: Acting;
    row: MemberRow;
    changes: { before: unknown; after: unknown };
  },
): Promise<void> {
  return insertAudit(db, {
    ...entry,
    accountId: row.account_id,
    resourceType: 'member',
    resourceId: row.id,
    result: 'success',
  });
}

function taken(email: string): PurserError {
  const message = `email ${JSON.stringify(email)} belongs to this account, or is invited to it, already. Change that member.`;
  return new PurserError('invalid_request', message, { param: 'email' });
}

function tooMany(): PurserError {
  return new PurserError(
    'insufficient_permissions',
    `This account has ${maxMembers} members, and may have no more on any plan. Remove those who do not need it.`,
  );
}
