import type { AgentRow } from '../../shared/db/agents.ts';

/** An agent as on the wire. */
export function renderAgent(row: AgentRow) {
  return {
    id: row.id,
    agent_name: row.agent_name,
    agent_description: row.agent_description,
    wallet: { address: row.address, chain: row.chain },
    status: row.status,
    metadata: row.metadata,
    created_at: row.created_at.toISOString(),
  };
}
