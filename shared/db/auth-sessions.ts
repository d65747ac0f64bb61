import type { Role } from '../domain/access.ts';
import { newId } from '../ids.ts';
import { type AccountOfCredential, accountOfCredential } from './accounts.ts';
import type { Queryable } from './pool.ts';

/** Somebody has signed in for an account. @returns the session's id */
export async function insertAuthSession(
  db: Queryable,
  { accountId, userId }: { accountId: string; userId: string },
): Promise<string> {
  const id = newId('sid');
  await db.query('insert into auth_sessions (id, account_id, user_id) values ($1, $2, $3)', [id, accountId, userId]);
  return id;
}

/** Who a session speaks for. */
export interface SessionHolder extends AccountOfCredential {
  readonly user_id: string;
  /** Lower case; null unless verified. */
  readonly email: string | null;
  /** As the identity provider knows them. */
  readonly user_name: string | null;
  readonly role: Role;
}

/** Whose a session is; undefined where it was revoked, or where the person does not belong to the account any more. */
export async function findSessionHolder(
  db: Queryable,
  { id, accountId, userId }: { id: string; accountId: string; userId: string },
): Promise<SessionHolder | undefined> {
  const { rows } = await db.query<SessionHolder>(
    `select s.user_id, u.email, u.name as user_name, m.role, ${accountOfCredential}
     from auth_sessions s
     join users u on u.id = s.user_id
     join members m on m.account_id = s.account_id and m.user_id = s.user_id
     join accounts a on a.id = s.account_id
     where s.id = $1 and s.account_id = $2 and s.user_id = $3 and s.revoked_at is null`,
    [id, accountId, userId],
  );
  return rows[0];
}

/** Why a session ended. */
export type RevocationReason = 'signed_out' | 'token_reused' | 'code_reused' | 'member_removed' | 'revoked_by_operator';

/** Ends a session at once: neither its access tokens nor its refresh tokens are taken any more. @returns whether it was open */
export async function revokeAuthSession(
  db: Queryable,
  { id, reason }: { id: string; reason: RevocationReason },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'update auth_sessions set revoked_at = now(), revoked_reason = $2 where id = $1 and revoked_at is null',
    [id, reason],
  );
  return rowCount === 1;
}

/** Ends every open session of an account, or one person's for it. @returns which those were */
export async function revokeAuthSessions(
  db: Queryable,
  { accountId, userId, reason }: { accountId: string; userId?: string; reason: RevocationReason },
): Promise<{ readonly id: string; readonly user_id: string }[]> {
  const { rows } = await db.query<{ id: string; user_id: string }>(
    `update auth_sessions set revoked_at = now(), revoked_reason = $3
     where account_id = $1 and ($2::text is null or user_id = $2) and revoked_at is null returning id, user_id`,
    [accountId, userId ?? null, reason],
  );
  return rows;
}

/**
 * Deletes sessions that nobody can use any more, at most `limit` of them: revoked 30 days ago or earlier, or begun so long
 * ago and without a refresh token that is kept. Call it again while it returns `limit`.
 * @returns how many were deleted
 */
export async function deleteOldAuthSessions(db: Queryable, { limit }: { limit: number }): Promise<number> {
  const { rowCount } = await db.query(
    `delete from auth_sessions where id in (
       select id from auth_sessions s
       where coalesce(s.revoked_at, s.created_at) < now() - interval '30 days'
         and (s.revoked_at is not null or not exists (select from refresh_tokens t where t.session_id = s.id))
       limit $1 for update skip locked)`,
    [limit],
  );
  return rowCount ?? 0;
}
