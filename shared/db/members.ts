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
