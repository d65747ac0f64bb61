import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export interface UserRow {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  /** Lower case; null unless the provider says that it is verified. */
  readonly email: string | null;
  readonly name: string | null;
  readonly created_at: Date;
  readonly last_login_at: Date;
}

/** Somebody who has just signed in: known by issuer and subject, whatever their address is now. */
export async function upsertUser(
  db: Queryable,
  who: { issuer: string; subject: string; email: string | null; name: string | null },
): Promise<UserRow> {
  const { rows } = await db.query<UserRow>(
    `insert into users (id, issuer, subject, email, name) values ($1, $2, $3, $4, $5)
     on conflict (issuer, subject) do update
     set email = excluded.email, name = coalesce(excluded.name, users.name), last_login_at = now()
     returning *`,
    [newId('user'), who.issuer, who.subject, who.email?.toLowerCase() ?? null, who.name],
  );
  return rows[0]!;
}

/** Lets people go on being the same ones where their identity provider has another address now; subjects stay. */
export async function moveUsers(db: Queryable, { from, to }: { from: string; to: string }): Promise<void> {
  await db.query(
    `update users set issuer = $2 where issuer = $1
       and not exists (select from users other where other.issuer = $2 and other.subject = users.subject)`,
    [from, to],
  );
}
