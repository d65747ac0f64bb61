import { type AgentRow, type AgentStatus, findAgent, lockAgent, updateAgentStatus } from '../../shared/db/agents.ts';
import { insertEvent } from '../../shared/db/events.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { renderAgent } from '../render/agent.ts';

/**
 * Activates or deactivates an agent. Whoever judges a payment of it holds the same lock, so that every payment is judged
 * wholly before or wholly after. The status that it has already changes nothing, and so makes no event.
 */
export async function setAgentStatus(
  pool: Pool,
  { id, accountId, status }: { id: string; accountId: string; status: AgentStatus },
): Promise<AgentRow | undefined> {
  return inTransaction(pool, async (db) => {
    await lockAgent(db, { id });
    const isChanged = await updateAgentStatus(db, { id, accountId, status });
    const agent = await findAgent(db, { id, accountId });
    if (agent && isChanged)
      await insertEvent(db, {
        accountId,
        type: 'agent.status_changed',
        resourceType: 'agent',
        resourceId: id,
        agentId: id,
        data: renderAgent(agent),
      });
    return agent;
  });
}
