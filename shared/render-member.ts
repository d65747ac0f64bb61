import type { MemberRow } from './db/members.ts';

/** Somebody who belongs to an account, or is invited to, as on the wire and in the audit log. */
export function renderMember(row: MemberRow) {
  return {
    id: row.id,
    email: row.email,
    role: row.role,
    status: row.user_id === null ? ('invited' as const) : ('active' as const),
    user_id: row.user_id,
    created_at: row.created_at.toISOString(),
    joined_at: row.joined_at?.toISOString() ?? null,
  };
}
