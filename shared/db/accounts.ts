import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export type Plan = 'starter' | 'growth' | 'enterprise';

/** Stores a new account. @returns its id */
export async function createAccount(db: Queryable, { name, plan }: { name: string; plan: Plan }): Promise<string> {
  const id = newId('acct');
  await db.query('insert into accounts (id, name, plan) values ($1, $2, $3)', [id, name, plan]);
  return id;
}
