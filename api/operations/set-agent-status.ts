import { type AgentRow, type AgentStatus, findAgent, lockAgent, updateAgentStatus } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { insertEvent } from '../../shared/db/events.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { renderAgent } from '../render/agent.ts';

/**
 * Activates or deactivates an agent. Whoever judges a payment of it holds the same lock, so that every payment is judged
 * wholly before or wholly after. The status that it has already changes nothing, and so is not told of.
 */
export async function setAgentStatus(
  pool: Pool,
  { id, accountId, acting, status }: { id: string; accountId: string; acting: Acting; status: AgentStatus },
): Promise<AgentRow | undefined> {
  return inTransaction(pool, async (db) => {
    await lockAgent(db, { id });
    const before = await findAgent(db, { id, accountId });
    const isChanged = await updateAgentStatus(db, { id, accountId, status });
    const agent = await findAgent(db, { id, accountId });
    if (!before || !agent || !isChanged) return agent;
    const about = { accountId, agentId: id, resourceType: 'agent' as const, resourceId: id };
    await insertEvent(db, { ...about, type: 'agent.status_changed', data: renderAgent(agent) });
    await insertAudit(db, {
      ...about,
      action: 'agent.status_changed',
      acting,
      result: 'success',
      changes: { before: renderAgent(before), after: renderAgent(agent) },
    });
    return agent;
  });
}
