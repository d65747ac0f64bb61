import type { PolicyType } from '../domain/policy/engine.ts';
import type { Queryable } from './pool.ts';

export interface PolicyRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly type: PolicyType;
  /** As validated when written. */
  readonly rules: Readonly<Record<string, unknown>>;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export async function insertPolicy(
  db: Queryable,
  policy: { id: string; accountId: string; agentId: string; type: PolicyType; rules: Record<string, unknown> },
): Promise<PolicyRow> {
  const { rows } = await db.query<PolicyRow>(
    'insert into policies (id, account_id, agent_id, type, rules) values ($1, $2, $3, $4, $5) returning *',
    [policy.id, policy.accountId, policy.agentId, policy.type, JSON.stringify(policy.rules)],
  );
  return rows[0]!;
}

/** The policy, if it is this account's. */
export async function findPolicy(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<PolicyRow | undefined> {
  const { rows } = await db.query<PolicyRow>('select * from policies where id = $1 and account_id = $2', [
    id,
    accountId,
  ]);
  return rows[0];
}

/**
 * All policies of an agent, oldest first (the order in which violations are told), and what its account says about
 * agents that have none.
 */
export async function policiesOfAgent(
  db: Queryable,
  { agentId }: { agentId: string },
): Promise<{ policies: PolicyRow[]; defaultDeny: boolean }> {
  const { rows } = await db.query<PolicyRow & { default_deny: boolean }>(
    `select accounts.default_deny, policies.*
     from agents join accounts on accounts.id = agents.account_id
     left join policies on policies.agent_id = agents.id
     where agents.id = $1 order by policies.created_at, policies.id`,
    [agentId],
  );
  // An agent that is not there: nothing is known about its account, so nothing is allowed.
  return { policies: rows.filter(({ id }) => id !== null), defaultDeny: rows[0]?.default_deny ?? true };
}

/** Replaces the rules as a whole. @returns the policy as it is now, unless it was deleted meanwhile */
export async function replaceRules(
  db: Queryable,
  { id, accountId, rules }: { id: string; accountId: string; rules: Record<string, unknown> },
): Promise<PolicyRow | undefined> {
  const { rows } = await db.query<PolicyRow>(
    'update policies set rules = $3, updated_at = now() where id = $1 and account_id = $2 returning *',
    [id, accountId, JSON.stringify(rules)],
  );
  return rows[0];
}

/** @returns whether this call deleted it */
export async function deletePolicy(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<boolean> {
  const { rowCount } = await db.query('delete from policies where id = $1 and account_id = $2', [id, accountId]);
  return rowCount === 1;
}

/** Deletes all policies of an agent; its lock is the caller's to hold. */
export async function deletePoliciesOfAgent(db: Queryable, { agentId }: { agentId: string }): Promise<void> {
  await db.query('delete from policies where agent_id = $1', [agentId]);
}

export interface PolicyFilter {
  readonly accountId: string;
  readonly agentId?: string | undefined;
}

const filtered = 'account_id = $1 and ($2::text is null or agent_id = $2)';

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listPolicies(
  db: Queryable,
  { accountId, agentId, limit, offset }: PolicyFilter & { limit: number; offset: number },
): Promise<PolicyRow[]> {
  const { rows } = await db.query<PolicyRow>(
    `select * from policies where ${filtered} order by created_at desc, id desc limit $3 offset $4`,
    [accountId, agentId ?? null, limit, offset],
  );
  return rows;
}

export async function countPolicies(db: Queryable, { accountId, agentId }: PolicyFilter): Promise<number> {
  const { rows } = await db.query<{ count: number }>(`select count(*)::int as count from policies where ${filtered}`, [
    accountId,
    agentId ?? null,
  ]);
  return rows[0]!.count;
}
