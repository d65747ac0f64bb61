import { type Acting, type AuditAction, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool, type Queryable, violatedConstraint } from '../../shared/db/pool.ts';
import {
  deleteTemplate,
  insertTemplate,
  lockTemplate,
  replaceTemplate,
  type TemplateContent,
  templateNameConstraint,
} from '../../shared/db/templates.ts';
import type { PolicyTemplate } from '../../shared/domain/policy-templates.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import type { Once } from '../idempotency.ts';
import { renderTemplate } from '../render/template.ts';

// Each of these is one database transaction with its audit entry.

interface Change {
  readonly accountId: string;
  readonly acting: Acting;
}

/**
 * Stores a template of an account.
 * @returns the template as on the wire
 * @throws PurserError 400 when another template of the account has the name
 */
export function createTemplate(
  pool: Pool,
  { accountId, acting, content, once }: Change & { content: TemplateContent; once: Once },
): Promise<ReturnType<typeof renderTemplate>> {
  return nameUnlessTaken(content.name, () =>
    inTransaction(pool, async (db) => {
      const id = newId('ptpl');
      await once.claim(db, { resourceId: id });
      const answer = renderTemplate(await insertTemplate(db, { id, accountId, ...content }));
      const changes = { before: null, after: answer };
      await noteTemplate(db, { id, accountId, acting, action: 'policy_template.created', changes });
      await once.answer(db, answer);
      return answer;
    }),
  );
}

/**
 * Replaces everything that an account writes.
 * @returns the template as it is now, unless it was deleted meanwhile
 * @throws as `createTemplate`
 */
export function changeTemplate(
  pool: Pool,
  { id, accountId, acting, content }: Change & { id: string; content: TemplateContent },
): Promise<PolicyTemplate | undefined> {
  return nameUnlessTaken(content.name, () =>
    inTransaction(pool, async (db) => {
      const before = await lockTemplate(db, { id, accountId });
      const after = before && (await replaceTemplate(db, { id, accountId, ...content }));
      if (!after) return undefined;
      const changes = { before: renderTemplate(before), after: renderTemplate(after) };
      await noteTemplate(db, { id, accountId, acting, action: 'policy_template.updated', changes });
      return after;
    }),
  );
}

/** @returns whether this call deleted it */
export function removeTemplate(pool: Pool, { id, accountId, acting }: Change & { id: string }): Promise<boolean> {
  return inTransaction(pool, async (db) => {
    const before = await lockTemplate(db, { id, accountId });
    if (!before || !(await deleteTemplate(db, { id, accountId }))) return false;
    const changes = { before: renderTemplate(before), after: null };
    await noteTemplate(db, { id, accountId, acting, action: 'policy_template.deleted', changes });
    return true;
  });
}

async function nameUnlessTaken<T>(name: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (violatedConstraint(error) !== templateNameConstraint) throw error;
    const message = `name ${JSON.stringify(name)} is taken by another template of this account. Choose another one.`;
    throw new PurserError('invalid_request', message, { param: 'name' });
  }
}

function noteTemplate(
  db: Queryable,
  {
    id,
    ...entry
  }: Change & {
    id: string;
    action: AuditAction & `policy_template.${string}`;
    changes: { before: unknown; after: unknown };
  },
): Promise<void> {
  return insertAudit(db, { ...entry, resourceType: 'policy_template', resourceId: id, result: 'success' });
}
