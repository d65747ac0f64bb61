import type { GasTopUp } from '../domain/gas.ts';
import type { Plan } from '../domain/plans.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Stores a new account. @returns its id */
export async function createAccount(
  db: Queryable,
  { name, plan, ownerKey }: { name: string; plan: Plan; ownerKey?: string | undefined },
): Promise<string> {
  const id = newId('acct');
  await db.query('insert into accounts (id, name, plan, owner_key) values ($1, $2, $3, $4)', [
    id,
    name,
    plan,
    ownerKey ?? null,
  ]);
  return id;
}

/** An account, as it is set. */
export interface AccountRow {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  /** Whether a payment of an agent without any policy is denied. */
  readonly default_deny: boolean;
  /** In lower case; whom built-in policy templates ask for approval. */
  readonly owner_email: string | null;
  /** Ed25519 public key of who sets limits inside the signers, as it was named at first. */
  readonly owner_key: string | null;
  /** Networks (CIDR) from which it may be used; none: from anywhere. */
  readonly ip_allowlist: readonly string[];
  /** Whether API keys may change policies and templates, or only people. */
  readonly policy_writes: 'any' | 'bearer';
  /** Agents of it that send coins for fees to the others, one a chain at most. */
  readonly gas_top_ups: readonly GasTopUp[];
  /** Limits of its own; null: those of the plan. */
  readonly requests_per_minute: number | null;
  readonly requests_per_day: number | null;
  readonly concurrent_requests: number | null;
  readonly created_at: Date;
}

export async function findAccount(db: Queryable, { id }: { id: string }): Promise<AccountRow | undefined> {
  const { rows } = await db.query<AccountRow>('select * from accounts where id = $1', [id]);
  return rows[0];
}

/** The same, locked until the database transaction ends. */
export async function lockAccount(db: Queryable, { id }: { id: string }): Promise<AccountRow | undefined> {
  const { rows } = await db.query<AccountRow>('select * from accounts where id = $1 for no key update', [id]);
  return rows[0];
}

/** What may be set of an account; what is left out stays. */
export type AccountChange = {
  readonly [Name in Exclude<keyof AccountRow, 'id' | 'owner_key' | 'created_at'>]?: AccountRow[Name] | undefined;
};

const settable = [
  'name',
  'plan',
  'default_deny',
  'owner_email',
  'ip_allowlist',
  'policy_writes',
  'gas_top_ups',
  'requests_per_minute',
  'requests_per_day',
  'concurrent_requests',
] as const satisfies readonly (keyof AccountChange)[];

/** Sets what is given and leaves the rest. @returns the account as it is now, unless there is none */
export async function updateAccount(
  db: Queryable,
  { id, change }: { id: string; change: AccountChange },
): Promise<AccountRow | undefined> {
  const names = settable.filter((name) => change[name] !== undefined);
  if (names.length === 0) return findAccount(db, { id });
  const assignments = names.map((name, index) => `${name} = $${index + 2}`);
  const { rows } = await db.query<AccountRow>(
    `update accounts set ${assignments.join(', ')} where id = $1 returning *`,
    // An array would be taken for one of Postgres.
    [id, ...names.map((name) => (name === 'gas_top_ups' ? JSON.stringify(change[name]) : change[name]))],
  );
  return rows[0];
}

/** What every request needs to know of its account, read with the credential. */
export interface AccountOfCredential {
  readonly account_id: string;
  readonly plan: Plan;
  readonly ip_allowlist: readonly string[];
  readonly policy_writes: 'any' | 'bearer';
  readonly requests_per_minute: number | null;
  readonly requests_per_day: number | null;
  readonly concurrent_requests: number | null;
}

/** Columns of `AccountOfCredential`, of a join with accounts `a`. */
export const accountOfCredential = `a.id as account_id, a.plan, a.ip_allowlist, a.policy_writes,
  a.requests_per_minute, a.requests_per_day, a.concurrent_requests`;
