import { lockAgent } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { deletePoliciesOfAgent, policiesOfAgent } from '../../shared/db/policies.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import type { PolicyTemplate } from '../../shared/domain/policy-templates.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Once } from '../idempotency.ts';
import { renderPolicy } from '../render/policy.ts';
import { requireAgent } from '../require-agent.ts';
import type { ApplyTemplateBody } from '../schemas/templates.ts';
import { attachPolicies } from './attach-policies.ts';

/**
 * Copies a template's policies to an agent: all of them or none, in one database transaction under the agent's lock, so
 * that every payment is judged by the policies before or by those after, never by some of both.
 * @returns the new policies in the template's order, as on the wire
 * @throws PurserError 400 for an agent of nobody, one on a chain that has not the addresses, or an owner who is not known; 403 where the agent would have too many
 */
export async function applyTemplate(
  pool: Pool,
  {
    accountId,
    acting,
    template,
    body,
    once,
  }: { accountId: string; acting: Acting; template: PolicyTemplate; body: ApplyTemplateBody; once: Once },
): Promise<{ data: ReturnType<typeof renderPolicy>[] }> {
  const { id: agentId } = await requireAgent(pool, { id: body.agent_id, accountId });
  requireApprovers(template, { accountId });
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    await lockAgent(db, { id: agentId });
    const before = await policiesShown(db, { agentId });
    if (body.mode === 'replace') await deletePoliciesOfAgent(db, { agentId });
    const rows = await attachPolicies(db, { accountId, agentId, policies: template.policies, template: template.name });
    const answer = { data: rows.map(renderPolicy) };
    await insertAudit(db, {
      accountId,
      agentId,
      action: 'policy_template.applied',
      acting,
      resourceType: 'policy_template',
      resourceId: template.id,
      result: 'success',
      changes: { before, after: await policiesShown(db, { agentId }) },
      metadata: { name: template.name, mode: body.mode },
    });
    await once.answer(db, answer);
    return answer;
  });
}

/** All policies of the agent as on the wire, oldest first. */
async function policiesShown(db: Queryable, { agentId }: { agentId: string }) {
  const { policies } = await policiesOfAgent(db, { agentId });
  return policies.map(renderPolicy);
}

/** A built-in template asks the account's owner. Without one nobody could ever approve, so it is not applied at all. */
function requireApprovers(template: PolicyTemplate, { accountId }: { accountId: string }): void {
  const asksNobody = template.policies.some(
    ({ rules: { approvers } }) => Array.isArray(approvers) && approvers.length === 0,
  );
  if (!asksNobody) return;
  throw new PurserError(
    'invalid_request',
    `Template ${template.name} asks the account's owner for approval, and this account's owner is not known. Set it with \`owner_email\` of PUT /account, or have the operator do it with \`npm run admin -- account set --id ${accountId} --owner EMAIL\`. Template permissive needs nobody.`,
  );
}
