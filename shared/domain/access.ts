/** What an API key may be limited to. `…:write` includes `…:read`. */
export const scopes = [
  'account:read',
  'agents:read',
  'agents:write',
  'approvals:read',
  'audit:read',
  'events:read',
  'policies:read',
  'policies:write',
  'transactions:read',
  'transactions:write',
  'webhooks:read',
  'webhooks:write',
  'x402:read',
  'x402:write',
] as const;
export type Scope = (typeof scopes)[number];

/** What a person is to an account; each may what those before may. */
export const roles = ['viewer', 'approver', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];

/** Whether a key that is limited to these scopes has one. @param granted null for a key that is not limited */
export function hasScope(granted: readonly Scope[] | null, scope: Scope): boolean {
  if (granted === null || granted.includes(scope)) return true;
  return granted.includes(scope.replace(/:read$/, ':write') as Scope);
}
