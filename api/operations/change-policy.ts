import { lockAgent } from '../../shared/db/agents.ts';
import { remindOfAgent } from '../../shared/db/approvals.ts';
import { type Acting, type AuditAction, insertAudit } from '../../shared/db/audit.ts';
import { deletePolicy, findPolicy, type PolicyRow, replaceRules } from '../../shared/db/policies.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import type { Once } from '../idempotency.ts';
import { renderPolicy } from '../render/policy.ts';
import { requirePayable } from '../require-payable.ts';
import { attachPolicies, type GivenPolicy } from './attach-policies.ts';

// Each of these is one database transaction with its audit entry, under the agent's lock.

/**
 * Attaches one policy to an agent.
 * @returns the policy as on the wire
 * @throws PurserError 403 where the agent would have too many
 */
export function createPolicy(
  pool: Pool,
  {
    accountId,
    agentId,
    acting,
    policy,
    once,
  }: { accountId: string; agentId: string; acting: Acting; policy: GivenPolicy; once: Once },
): Promise<ReturnType<typeof renderPolicy>> {
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    const [row] = await attachPolicies(db, { accountId, agentId, policies: [policy] });
    const answer = renderPolicy(row!);
    await notePolicy(db, row!, { acting, action: 'policy.created', changes: { before: null, after: answer } });
    await once.answer(db, answer);
    return answer;
  });
}

/**
 * Replaces a policy's rules as a whole.
 * @returns the policy as it is now, unless it was deleted meanwhile
 * @throws PurserError 400 for an address that the agent cannot pay
 */
export function replacePolicy(
  pool: Pool,
  { id, agent_id: agentId, account_id: accountId, type }: PolicyRow,
  { acting, rules }: { acting: Acting; rules: Record<string, unknown> },
): Promise<PolicyRow | undefined> {
  return inTransaction(pool, async (db) => {
    const agent = await lockAgent(db, { id: agentId });
    if (agent) requirePayable({ type, rules }, { agent, place: (path) => ({ named: path, param: path }) });
    await remindOfAgent(db, { agentId });
    const before = await findPolicy(db, { id, accountId });
    const after = await replaceRules(db, { id, accountId, rules });
    if (!before || !after) return undefined;
    const changes = { before: renderPolicy(before), after: renderPolicy(after) };
    await notePolicy(db, after, { acting, action: 'policy.updated', changes });
    return after;
  });
}

/** @returns whether this call deleted it */
export function removePolicy(
  pool: Pool,
  { id, agent_id: agentId, account_id: accountId }: PolicyRow,
  { acting }: { acting: Acting },
): Promise<boolean> {
  return inTransaction(pool, async (db) => {
    await lockAgent(db, { id: agentId });
    await remindOfAgent(db, { agentId });
    const before = await findPolicy(db, { id, accountId });
    if (!before || !(await deletePolicy(db, { id, accountId }))) return false;
    const changes = { before: renderPolicy(before), after: null };
    await notePolicy(db, before, { acting, action: 'policy.deleted', changes });
    return true;
  });
}

function notePolicy(
  db: Queryable,
  { id, account_id: accountId, agent_id: agentId }: PolicyRow,
  {
    acting,
    action,
    changes,
  }: {
    acting: Acting;
    action: AuditAction & `policy.${string}`;
    changes: { before: unknown; after: unknown };
  },
): Promise<void> {
  const about = { accountId, agentId, resourceType: 'policy', resourceId: id };
  return insertAudit(db, { ...about, action, acting, result: 'success', changes });
}
