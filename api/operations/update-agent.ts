import { isDeepStrictEqual } from 'node:util';
import { type AgentRow, findAgent, lockAgent, updateAgent } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { isNameConflict, nameTaken } from '../name-taken.ts';
import { renderAgent } from '../render/agent.ts';
import type { UpdateAgentBody } from '../schemas/agents.ts';
import { setFrozen } from './set-frozen.ts';

/**
 * Changes an agent's name, description or metadata, or whether it is frozen; what is not given stays. A change that changes
 * nothing is not logged. To be frozen alone waits for nobody who holds the agent; with a change beside it, it does.
 * @returns the agent as it is now, unless it was deleted meanwhile
 * @throws PurserError 400 for a taken name; 403 for a freeze that is not theirs to lift
 */
export async function changeAgent(
  pool: Pool,
  { id, accountId, acting, body }: { id: string; accountId: string; acting: Acting; body: UpdateAgentBody },
): Promise<AgentRow | undefined> {
  const { agent_name: agentName, agent_description: agentDescription, metadata } = body;
  const isChanged = [agentName, agentDescription, metadata].some((given) => given !== undefined);
  try {
    return await inTransaction(pool, async (db) => {
      // As payments do: the agent before the freezes. The other way round, each could wait for the other.
      if (isChanged) await lockAgent(db, { id });
      await setFrozen(db, { subject: { scope: 'agent', accountId, agentId: id }, wish: body, acting });
      if (!isChanged) return findAgent(db, { id, accountId });
      const before = await findAgent(db, { id, accountId });
      await updateAgent(db, { id, accountId, change: { agentName, agentDescription, metadata } });
      const after = await findAgent(db, { id, accountId });
      if (!before || !after || isDeepStrictEqual(before, after)) return after;
      await insertAudit(db, {
        ...{ accountId, agentId: id, resourceType: 'agent', resourceId: id },
        action: 'agent.updated',
        acting,
        result: 'success',
        changes: { before: renderAgent(before), after: renderAgent(after) },
      });
      return after;
    });
  } catch (error) {
    if (isNameConflict(error)) throw nameTaken(agentName ?? '');
    throw error;
  }
}
