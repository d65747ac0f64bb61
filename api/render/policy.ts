import type { PolicyRow } from '../../shared/db/policies.ts';

/** A policy as on the wire. */
export function renderPolicy(row: PolicyRow) {
  return {
    id: row.id,
    agent_id: row.agent_id,
    type: row.type,
    rules: row.rules,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
