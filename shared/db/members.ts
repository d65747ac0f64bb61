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

/** All accounts that a person belongs to. */
export async function listMemberships(db: Queryable, { userId }: { userId: string }): Promise<MembershipRow[]> {
  const { rows } = await db.query<MembershipRow>(
    `select m.*, (select max(s.created_at) from auth_sessions s
                  where s.user_id = m.user_id and s.account_id = m.account_id) as last_sign_in_at
     from members m where m.user_id = $1`,
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
