import type { ApiKeyRow } from './db/api-keys.ts';
import { scopes as allScopes, type Scope } from './domain/access.ts';

/**
 * An API key as on the wire, in answers and in the audit log; never the key itself.
 * @param usable what a key of its kind may be limited to: a key that is not limited has all of that
 */
export function renderApiKey(row: ApiKeyRow, { usable = allScopes }: { usable?: readonly Scope[] } = {}) {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes ?? usable,
    agent_id: row.agent_id,
    expires_at: row.expires_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    last_used_at: row.last_used_at?.toISOString() ?? null,
  };
}
