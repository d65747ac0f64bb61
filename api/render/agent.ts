import type { AgentRow } from '../../shared/db/agents.ts';
import { renderFreeze } from '../../shared/render-freeze.ts';

/** An agent as on the wire. */
export function renderAgent(row: AgentRow) {
  return {
    id: row.id,
    agent_name: row.agent_name,
    agent_description: row.agent_description,
    wallet: { address: row.address, chain: row.chain },
    status: row.status,
    frozen: row.freeze !== null,
    freeze: row.freeze && renderFreeze(row.freeze),
    metadata: row.metadata,
    created_at: row.created_at.toISOString(),
  };
}
