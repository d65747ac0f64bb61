import type { PolicyType } from '../domain/policy/types.ts';
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

/** All policies of an agent, oldest first: what a payment is judged by, in the order in which violations are told. */
export async function policiesOfAgent(db: Queryable, { agentId }: { agentId: string }): Promise<PolicyRow[]> {
  const { rows } = await db.query<PolicyRow>('select * from policies where agent_id = $1 order by created_at, id', [
    agentId,
  ]);
  return rows;
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
