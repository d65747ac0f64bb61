import type { PolicyTemplate, TemplatePolicy } from '../domain/policy-templates.ts';
import type { Queryable } from './pool.ts';

/** What an account writes of a template of its own. */
export interface TemplateContent {
  readonly name: string;
  readonly description: string | undefined;
  readonly policies: readonly TemplatePolicy[];
}

/** The constraint that a taken name violates. */
export const templateNameConstraint = 'policy_templates_name_is_unique';

const columns = 'id, name, description, false as built_in, policies, created_at, updated_at';

/** Stores a template. A taken name violates {@link templateNameConstraint}. */
export async function insertTemplate(
  db: Queryable,
  { id, accountId, name, description, policies }: TemplateContent & { id: string; accountId: string },
): Promise<PolicyTemplate> {
  const { rows } = await db.query<PolicyTemplate>(
    `insert into policy_templates (id, account_id, name, description, policies) values ($1, $2, $3, $4, $5)
     returning ${columns}`,
    [id, accountId, name, description ?? null, JSON.stringify(policies)],
  );
  return rows[0]!;
}

/** The template, if it is one of this account's own. */
export async function findTemplate(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<PolicyTemplate | undefined> {
  const { rows } = await db.query<PolicyTemplate>(
    `select ${columns} from policy_templates where id = $1 and account_id = $2`,
    [id, accountId],
  );
  return rows[0];
}

/** The same, locked until the database transaction ends. */
export async function lockTemplate(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<PolicyTemplate | undefined> {
  const { rows } = await db.query<PolicyTemplate>(
    `select ${columns} from policy_templates where id = $1 and account_id = $2 for update`,
    [id, accountId],
  );
  return rows[0];
}

/** Replaces everything that an account writes. @returns the template as it is now, unless it was deleted meanwhile */
export async function replaceTemplate(
  db: Queryable,
  { id, accountId, name, description, policies }: TemplateContent & { id: string; accountId: string },
): Promise<PolicyTemplate | undefined> {
  const { rows } = await db.query<PolicyTemplate>(
    `update policy_templates set name = $3, description = $4, policies = $5, updated_at = now()
     where id = $1 and account_id = $2 returning ${columns}`,
    [id, accountId, name, description ?? null, JSON.stringify(policies)],
  );
  return rows[0];
}

/** @returns whether this call deleted it */
export async function deleteTemplate(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<boolean> {
  const { rowCount } = await db.query('delete from policy_templates where id = $1 and account_id = $2', [
    id,
    accountId,
  ]);
  return rowCount === 1;
}

/** One page of an account's own, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listTemplates(
  db: Queryable,
  { accountId, limit, offset }: { accountId: string; limit: number; offset: number },
): Promise<PolicyTemplate[]> {
  const { rows } = await db.query<PolicyTemplate>(
    `select ${columns} from policy_templates where account_id = $1 order by created_at desc, id desc limit $2 offset $3`,
    [accountId, limit, offset],
  );
  return rows;
}

export async function countTemplates(db: Queryable, { accountId }: { accountId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from policy_templates where account_id = $1',
    [accountId],
  );
  return rows[0]!.count;
}
