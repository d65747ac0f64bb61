import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export type Plan = 'starter' | 'growth' | 'enterprise';

/** Stores a new account. @returns its id */
export async function createAccount(db: Queryable, { name, plan }: { name: string; plan: Plan }): Promise<string> {
  const id = newId('acct');
  await db.query('insert into accounts (id, name, plan) values ($1, $2, $3)', [id, name, plan]);
  return id;
}

/** What an operator may set of an account. */
export interface AccountSettings {
  readonly id: string;
  /** Whether a payment of an agent without any policy is denied. */
  readonly default_deny: boolean;
  /** In lower case; whom built-in policy templates ask for approval. */
  readonly owner_email: string | null;
}

const settings = 'id, default_deny, owner_email';

/** The settings of an account that exists. */
export async function findAccountSettings(db: Queryable, { id }: { id: string }): Promise<AccountSettings | undefined> {
  const { rows } = await db.query<AccountSettings>(`select ${settings} from accounts where id = $1`, [id]);
  return rows[0];
}

/** The same, locked until the database transaction ends. */
export async function lockAccountSettings(db: Queryable, { id }: { id: string }): Promise<AccountSettings | undefined> {
  const { rows } = await db.query<AccountSettings>(`select ${settings} from accounts where id = $1 for no key update`, [
    id,
  ]);
  return rows[0];
}

/** Sets what is given and leaves the rest. @returns all settings as they are now, unless there is no such account */
export async function updateAccountSettings(
  db: Queryable,
  { id, defaultDeny, ownerEmail }: { id: string; defaultDeny?: boolean | undefined; ownerEmail?: string | undefined },
): Promise<AccountSettings | undefined> {
  const { rows } = await db.query<AccountSettings>(
    `update accounts set default_deny = coalesce($2, default_deny), owner_email = coalesce($3, owner_email)
     where id = $1 returning ${settings}`,
    [id, defaultDeny ?? null, ownerEmail ?? null],
  );
  return rows[0];
}
