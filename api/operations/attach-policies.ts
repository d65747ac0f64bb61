import type { z } from 'zod';
import { lockAgent } from '../../shared/db/agents.ts';
import { remindOfAgent } from '../../shared/db/approvals.ts';
import { countPolicies, insertPolicy, type PolicyRow } from '../../shared/db/policies.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import { unknownAgent } from '../require-agent.ts';
import { requirePayable } from '../require-payable.ts';
import type { createTypedRulesSchema } from '../schemas/policies.ts';

/** A policy as it was validated. */
export type GivenPolicy = z.output<ReturnType<typeof createTypedRulesSchema>>;

/** Policies of one agent at most: each payment is judged by all of them, under the agent's lock. */
export const maxPolicies = 20;

/**
 * Attaches policies to an agent, in the order given. Runs inside the caller's database transaction and takes the
 * agent's lock: a payment is judged by the policies of before or of after, and what two callers add is counted together.
 * @param template name of the template that they are copied from
 * @throws PurserError 403 when the agent would have more than 20; 400 when it was deleted meanwhile, or cannot pay one of
 *   the addresses
 */
export async function attachPolicies(
  db: Queryable,
  {
    accountId,
    agentId,
    policies,
    template,
  }: {
    accountId: string;
    agentId: string;
    policies: readonly GivenPolicy[];
    template?: string;
  },
): Promise<PolicyRow[]> {
  const agent = await lockAgent(db, { id: agentId });
  if (!agent || agent.is_deleted) throw unknownAgent(agentId);
  for (const [index, policy] of policies.entries())
    requirePayable(policy, {
      agent,
      place: (path) =>
        template === undefined
          ? { named: path, param: path }
          : { named: `policies.${index}.${path} of template ${template}`, param: 'agent_id' },
    });
  const present = await countPolicies(db, { accountId, agentId });
  if (present + policies.length > maxPolicies)
    throw new PurserError(
      'insufficient_permissions',
      `Agent ${agentId} has ${present} policies; at most ${maxPolicies} may be attached, on every plan. Delete one, or put their rules together.`,
    );
  await remindOfAgent(db, { agentId });
  const rows: PolicyRow[] = [];
  for (const { type, rules } of policies)
    rows.push(await insertPolicy(db, { id: newId('pol'), accountId, agentId, type, rules }));
  return rows;
}
