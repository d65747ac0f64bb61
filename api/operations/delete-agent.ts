import { type AgentRow, findAgent, lockAgentWhole, markAgentDeleted } from '../../shared/db/agents.ts';
import { deleteAgentApiKeys } from '../../shared/db/api-keys.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { deletePoliciesOfAgent, policiesOfAgent } from '../../shared/db/policies.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { listUnfinished } from '../../shared/db/unfinished-business.ts';
import type { Logger } from '../../shared/log.ts';
import { renderAgent } from '../render/agent.ts';
import { renderPolicy } from '../render/policy.ts';
import type { AgentBalancesDependencies } from './agent-balances.ts';
import { noteDeletedKey } from './change-api-keys.ts';
import { refuseDeletion } from './refuse-deletion.ts';
import { worthKeeping } from './worth-keeping.ts';

/** Named of each kind that stands in the way. */
const maxNamed = 20;

/**
 * Deletes an agent that has nothing under way and nothing left in its wallet: it pays nothing any more, its keys and
 * policies go with it, its name is free again, and only its history is left. The wallet's key stays with the signers:
 * what is sent to its address by mistake is not lost.
 *
 * Chains are asked first, then what is under way is looked at again under a lock that new payments wait for: a payment
 * made at the same moment is either in the way, or is refused.
 * @returns whether this call deleted it
 * @throws PurserError 400 with everything that is in the way; 503 when no worker that reaches the chains answers
 */
export async function removeAgent(
  { pool, ...deps }: AgentBalancesDependencies,
  { agent, acting, log }: { agent: AgentRow; acting: Acting; log: Logger },
): Promise<boolean> {
  const { id, account_id: accountId } = agent;
  const find = { agentId: id, limit: maxNamed };
  // Before the balances are read: of what ends in between, no money can come back.
  const unfinished = await listUnfinished(pool, find);
  const money = await worthKeeping({ pool, ...deps }, { agent, log });
  refuseDeletion(id, { unfinished, ...money });
  return inTransaction(pool, async (db) => {
    await lockAgentWhole(db, { id });
    const before = await findAgent(db, { id, accountId });
    if (!before) return false;
    refuseDeletion(id, { unfinished: await listUnfinished(db, find), balances: [], unreadable: [] });
    const { policies } = await policiesOfAgent(db, { agentId: id });
    await deletePoliciesOfAgent(db, { agentId: id });
    for (const row of await deleteAgentApiKeys(db, { agentId: id })) await noteDeletedKey(db, { acting, row });
    await markAgentDeleted(db, { id });
    await insertAudit(db, {
      ...{ accountId, agentId: id, resourceType: 'agent', resourceId: id },
      action: 'agent.deleted',
      acting,
      result: 'success',
      changes: { before: { ...renderAgent(before), policies: policies.map(renderPolicy) }, after: null },
    });
    return true;
  });
}
