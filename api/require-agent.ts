import { type AgentRow, findAgent, hasOrHadAgent, shareAgent } from '../shared/db/agents.ts';
import type { FreezeRow } from '../shared/db/freezes.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { describeFreeze } from '../shared/domain/describe-freeze.ts';
import { PurserError } from '../shared/errors.ts';
import { isId } from '../shared/ids.ts';
import { renderFreeze } from '../shared/render-freeze.ts';

/** The agent that a body or a query names by `agent_id`. @throws PurserError 400, the same for unknown and for another account's */
export async function requireAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<AgentRow> {
  const agent = isId('agent', id) ? await findAgent(db, { id, accountId }) : undefined;
  if (agent) return agent;
  throw unknownAgent(id);
}

/** The same for one that is to be referred to: it is not deleted before the database transaction ends. @throws PurserError 400 */
export async function requireLastingAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<AgentRow> {
  const agent = isId('agent', id) ? await shareAgent(db, { id, accountId }) : undefined;
  if (agent) return agent;
  throw unknownAgent(id);
}

/** The same for a filter of a history, where it may have been deleted since. @throws PurserError 400 */
export async function requireKnownAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<void> {
  if (!isId('agent', id) || !(await hasOrHadAgent(db, { id, accountId }))) throw unknownAgent(id);
}

/** That a body or a query names none of this account. */
export function unknownAgent(id: string): PurserError {
  const message = `agent_id ${JSON.stringify(id)} is no agent of this account.`;
  return new PurserError('invalid_request', message, { param: 'agent_id' });
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

/** That an agent may not pay now because it is frozen, or something wider is. */
export function frozenAgent(id: string, freeze: FreezeRow): PurserError {
  return new PurserError('agent_inactive', `Agent ${id} cannot pay. ${describeFreeze(freeze)}`, {
    details: { agent_id: id, freeze: renderFreeze(freeze) },
  });
}
