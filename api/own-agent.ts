import { PurserError } from '../shared/errors.ts';
import { boundAgentOf, type Caller } from './caller.ts';

/**
 * Limits a caller whose key is of one agent to that agent: another one in a body or a query is refused like one of
 * another account, and a list that can be filtered by agent is.
 * @returns the query, with the agent where it can name one
 * @throws PurserError 400
 */
export function limitToOwnAgent<Query>({
  caller,
  query,
  filters,
  body,
}: {
  caller: Caller;
  query: Query;
  /** Whether the query can name an agent. */
  filters: boolean;
  body: unknown;
}): Query {
  const own = boundAgentOf(caller);
  if (own === undefined) return query;
  for (const part of [query, body]) {
    const named = agentNamedBy(part);
    if (named !== undefined && named !== own)
      throw new PurserError('invalid_request', `agent_id ${JSON.stringify(named)} is not the agent of this API key.`, {
        param: 'agent_id',
      });
  }
  return filters ? { ...query, agent_id: own } : query;
}

/** Whether what a path names is the business of the caller's agent. */
export function isOwnBusiness({ caller, agentId }: { caller: Caller; agentId: string | undefined }): boolean {
  const own = boundAgentOf(caller);
  return own === undefined || agentId === own;
}

function agentNamedBy(part: unknown): string | undefined {
  if (typeof part !== 'object' || part === null || !('agent_id' in part)) return undefined;
  return typeof part.agent_id === 'string' ? part.agent_id : undefined;
}
