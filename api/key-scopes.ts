import { type Scope, scopes } from '../shared/domain/access.ts';
import { type Access, access } from './access.ts';

/** Scopes that open something to a key of one agent, by the table of who may what. */
const agentScopes: readonly Scope[] = scopes.filter((scope) =>
  Object.values<Access>(access).some(
    (allowed) => allowed.by === 'caller' && allowed.agentKeys && allowed.scope === scope,
  ),
);

/** What a key may be limited to. @param agentId the one agent that it is for; null for none in particular */
export function usableScopes({ agentId }: { agentId: string | null }): readonly Scope[] {
  return agentId === null ? scopes : agentScopes;
}
