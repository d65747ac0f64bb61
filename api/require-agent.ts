import { type AgentRow, findAgent } from '../shared/db/agents.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { PurserError } from '../shared/errors.ts';
import { isId } from '../shared/ids.ts';

/** The agent that a body or a query names by `agent_id`. @throws PurserError 400, the same for unknown and for another account's */
export async function requireAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<AgentRow> {
  const agent = isId('agent', id) ? await findAgent(db, { id, accountId }) : undefined;
  if (agent) return agent;
  throw new PurserError('invalid_request', `agent_id ${JSON.stringify(id)} is no agent of this account.`, {
    param: 'agent_id',
  });
}

/** The same for an agent that is to pay. @throws PurserError 400 `agent_inactive` as well */
export async function requireActiveAgent(db: Queryable, named: { id: string; accountId: string }): Promise<AgentRow> {
  const agent = await requireAgent(db, named);
  if (agent.status === 'active') return agent;
  throw inactiveAgent(agent.id, { param: 'agent_id' });
}

/** That an agent may not pay now. @param param member that names it, if the request does */
export function inactiveAgent(id: string, { param }: { param?: string } = {}): PurserError {
  return new PurserError('agent_inactive', `Agent ${id} is inactive: it sends nothing until it is active again.`, {
    param,
  });
}
