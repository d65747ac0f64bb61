import type { Role } from '../domain/access.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Who belongs to an account, or is invited to. */
export interface MemberRow {
  readonly id: string;
  readonly account_id: string;
  /** Null while invited. */
  readonly user_id: string | null;
  /** To which it was invited; lower case. */
  readonly email: string;
  readonly role: Role;
  readonly created_at: Date;
  readonly joined_at: Date | null;
}

/** Invites an address. @returns undefined where it belongs to the account, or is invited, already */
export async function insertMember(
  db: Queryable,
  { accountId, email, role }: { accountId: string; email: string; role: Role },
): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>(
    `insert into members (id, account_id, email, role) values ($1, $2, $3, $4)
     on conflict (account_id, email) do nothing returning *`,
    [newId('mbr'), accountId, email.toLowerCase(), role],
  );
  return rows[0];
}

/** Makes a person the member of every account that has invited their address and that they do not belong to yet. */
export async function acceptInvitations(
  db: Queryable,
  { userId, email }: { userId: string; email: string },
): Promise<MemberRow[]> {
  const { rows } = await db.query<MemberRow>(
    `update members m set user_id = $1, joined_at = now()
     where m.email = $2 and m.user_id is null
       and not exists (select from members other where other.account_id = m.account_id and other.user_id = $1)
     returning *`,
    [userId, email.toLowerCase()],
  );
  return rows;
}

/** An account that somebody belongs to. */
export interface MembershipRow extends MemberRow {
  readonly joined_at: Date;
  /** Null where they never signed in for it. */
  readonly last_sign_in_at: Date | null;
}

/** All accounts that a person belongs to, the newest invitation first: of those of one millisecond, the later id. */
export async function listMemberships(db: Queryable, { userId }: { userId: string }): Promise<MembershipRow[]> {
  const { rows } = await db.query<MembershipRow>(
    `select m.*, (select max(s.created_at) from auth_sessions s
                  where s.user_id = m.user_id and s.account_id = m.account_id) as last_sign_in_at
     from members m where m.user_id = $1 order by m.created_at desc, m.id desc`,
    [userId],
  );
  return rows;
}

/**
 * Lets one transaction after the other look whether anybody belongs to the installation, so that of two who are the
 * first at once one is.
 */
export async function lockFirstMember(db: Queryable): Promise<void> {
  await db.query(`select pg_advisory_xact_lock(hashtext('first member'))`);
}

/** Whether anybody belongs to any account, or is invited to one. */
export async function hasMembers(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>('select exists (select from members) as found');
  return rows[0]!.found;
}

/** The member, whichever account's it is: for operators. */
export async function getMember(db: Queryable, { id }: { id: string }): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>('select * from members where id = $1', [id]);
  return rows[0];
}

/** The member, if it is this account's. */
export async function findMember(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>('select * from members where id = $1 and account_id = $2', [
    id,
    accountId,
  ]);
  return rows[0];
}

/** What a person is to an account; undefined where they do not belong to it. */
export async function findRole(
  db: Queryable,
  { accountId, userId }: { accountId: string; userId: string },
): Promise<Role | undefined> {
  const { rows } = await db.query<{ role: Role }>('select role from members where account_id = $1 and user_id = $2', [
    accountId,
    userId,
  ]);
  return rows[0]?.role;
}

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listMembers(
  db: Queryable,
  { accountId, limit, offset }: { accountId: string; limit: number; offset: number },
): Promise<MemberRow[]> {
  const { rows } = await db.query<MemberRow>(
    'select * from members where account_id = $1 order by created_at desc, id desc limit $2 offset $3',
    [accountId, limit, offset],
  );
  return rows;
}

export async function countMembers(db: Queryable, { accountId }: { accountId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from members where account_id = $1',
    [accountId],
  );
  return rows[0]!.count;
}

/** Owners who have joined: those who can do what only an owner may. */
export async function countJoinedOwners(db: Queryable, { accountId }: { accountId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from members where account_id = $1 and role = 'owner' and user_id is not null`,
    [accountId],
  );
  return rows[0]!.count;
}

/** @returns the member as it is now, unless it was removed meanwhile */
export async function setMemberRole(
  db: Queryable,
  { id, role }: { id: string; role: Role },
): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>('update members set role = $2 where id = $1 returning *', [id, role]);
  return rows[0];
}

/** @returns what it was, unless it was removed before */
export async function deleteMember(db: Queryable, { id }: { id: string }): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>('delete from members where id = $1 returning *', [id]);
  return rows[0];
}
