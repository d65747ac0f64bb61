import { hasScope, type Role, roles, type Scope } from '../shared/domain/access.ts';
import { PurserError } from '../shared/errors.ts';
import type { Caller } from './caller.ts';

/** Who may use an endpoint. */
export type Access =
  /** Whoever asks; the request itself proves what it needs to. */
  | { readonly by: 'anybody' }
  | {
      readonly by: 'caller';
      /** The least role of a person. */
      readonly role: Role;
      /** What an API key needs; null where none is taken. */
      readonly scope: Scope | null;
      /** Whether a key of one agent may, within what is that agent's. */
      readonly agentKeys: boolean;
      /** Told to an API key where none is taken. */
      readonly refusal?: string;
    };

const anybody: Access = { by: 'anybody' };
/** For keys with the scope and for people; not for keys of one agent. */
const by = (scope: Scope, role: Role): Access => ({ by: 'caller', scope, role, agentKeys: false });
/** The same, and for keys of an agent within what is that agent's. */
const alsoByAgent = (scope: Scope, role: Role): Access => ({ by: 'caller', scope, role, agentKeys: true });
const byPerson = (role: Role, refusal: string): Access => ({
  by: 'caller',
  scope: null,
  role,
  agentKeys: false,
  refusal,
});

const keyNeverDecides = 'An API key never approves or rejects a payment: sign in, or use the link in the mail.';
const keyNeverMakesKeys = 'An API key never sees, makes or deletes API keys: sign in.';
const keyNeverSetsAccount = 'An API key never changes an account or who belongs to it: sign in.';
const keyHasNoSession = 'An API key has no session: delete the key instead.';

/** Who may do what: the one table of it, by operation. The README shows it. */
export const access = {
  createAgent: by('agents:write', 'admin'),
  listAgents: alsoByAgent('agents:read', 'viewer'),
  getAgent: alsoByAgent('agents:read', 'viewer'),
  getAgentBalances: alsoByAgent('agents:read', 'viewer'),
  setAgentStatus: by('agents:write', 'admin'),
  updateAgent: by('agents:write', 'admin'),
  deleteAgent: by('agents:write', 'admin'),

  createTransaction: alsoByAgent('transactions:write', 'admin'),
  simulateTransaction: alsoByAgent('transactions:read', 'viewer'),
  listTransactions: alsoByAgent('transactions:read', 'viewer'),
  getTransaction: alsoByAgent('transactions:read', 'viewer'),
  cancelTransaction: alsoByAgent('transactions:write', 'admin'),
  speedUpTransaction: alsoByAgent('transactions:write', 'admin'),

  listApprovals: alsoByAgent('approvals:read', 'viewer'),
  getApproval: alsoByAgent('approvals:read', 'viewer'),
  approveApproval: byPerson('approver', keyNeverDecides),
  rejectApproval: byPerson('approver', keyNeverDecides),
  approveTransaction: byPerson('approver', keyNeverDecides),
  rejectTransaction: byPerson('approver', keyNeverDecides),

  createX402Session: alsoByAgent('x402:write', 'admin'),
  listX402Sessions: alsoByAgent('x402:read', 'viewer'),
  getX402Session: alsoByAgent('x402:read', 'viewer'),
  deleteX402Session: alsoByAgent('x402:write', 'admin'),
  payX402: alsoByAgent('x402:write', 'admin'),
  listX402Payments: alsoByAgent('x402:read', 'viewer'),
  getX402Payment: alsoByAgent('x402:read', 'viewer'),
  listX402FeeTiers: alsoByAgent('x402:read', 'viewer'),
  // It asks others in the name of this service, with whatever request it is given.
  checkX402Target: alsoByAgent('x402:write', 'admin'),

  createPolicy: by('policies:write', 'admin'),
  listPolicies: alsoByAgent('policies:read', 'viewer'),
  getPolicy: alsoByAgent('policies:read', 'viewer'),
  replacePolicyRules: by('policies:write', 'admin'),
  deletePolicy: by('policies:write', 'admin'),
  createPolicyTemplate: by('policies:write', 'admin'),
  listPolicyTemplates: by('policies:read', 'viewer'),
  getPolicyTemplate: by('policies:read', 'viewer'),
  replacePolicyTemplate: by('policies:write', 'admin'),
  deletePolicyTemplate: by('policies:write', 'admin'),
  applyPolicyTemplate: by('policies:write', 'admin'),

  createWebhook: by('webhooks:write', 'admin'),
  listWebhooks: by('webhooks:read', 'viewer'),
  getWebhook: by('webhooks:read', 'viewer'),
  changeWebhook: by('webhooks:write', 'admin'),
  deleteWebhook: by('webhooks:write', 'admin'),
  rotateWebhookSecret: by('webhooks:write', 'admin'),
  testWebhook: by('webhooks:write', 'admin'),
  listWebhookDeliveries: by('webhooks:read', 'viewer'),
  getWebhookDelivery: by('webhooks:read', 'viewer'),
  redeliverWebhookDelivery: by('webhooks:write', 'admin'),

  listEvents: by('events:read', 'viewer'),
  getEvent: by('events:read', 'viewer'),

  listAuditLogs: by('audit:read', 'viewer'),
  getAuditHead: by('audit:read', 'viewer'),
  verifyAuditLog: by('audit:read', 'viewer'),
  exportAuditLog: by('audit:read', 'viewer'),

  getAccount: by('account:read', 'viewer'),
  updateAccount: byPerson('admin', keyNeverSetsAccount),
  listMembers: byPerson('viewer', keyNeverSetsAccount),
  inviteMember: byPerson('admin', keyNeverSetsAccount),
  updateMember: byPerson('admin', keyNeverSetsAccount),
  removeMember: byPerson('admin', keyNeverSetsAccount),

  createApiKey: byPerson('admin', keyNeverMakesKeys),
  listApiKeys: byPerson('admin', keyNeverMakesKeys),
  deleteApiKey: byPerson('admin', keyNeverMakesKeys),

  exchangeCode: anybody,
  refreshTokens: anybody,
  signOut: byPerson('viewer', keyHasNoSession),
} as const satisfies Readonly<Record<string, Access>>;
export type OperationId = keyof typeof access;

/** Refuses whom the table refuses. @throws PurserError 403 */
export function requireAccess(allowed: Access, caller: Caller): void {
  const why = refusalOf(allowed, caller);
  if (why !== undefined) throw new PurserError('insufficient_permissions', why);
}

/**
 * Why the table refuses somebody; undefined for whom it does not. A person who sends an API key besides acts as the
 * person.
 */
export function refusalOf(allowed: Access, { key, user, account }: Caller): string | undefined {
  if (allowed.by === 'anybody') return undefined;
  if (user) {
    if (roles.indexOf(user.role) >= roles.indexOf(allowed.role)) return undefined;
    return `This needs the role ${allowed.role}; you are ${user.role} of this account.`;
  }
  if (!key) throw new Error('A caller is a key or a person.');
  if (allowed.scope === null) return allowed.refusal ?? 'An API key may not do this: sign in.';
  if (!hasScope(key.scopes, allowed.scope)) return `API key ${key.id} does not have the scope ${allowed.scope}.`;
  if (key.agentId !== null && !allowed.agentKeys)
    return `API key ${key.id} is bound to agent ${key.agentId}: it does that agent's business and no other.`;
  if (allowed.scope === 'policies:write' && account.policyWrites === 'bearer')
    return 'In this account only people who are signed in change policies and templates (policy_writes).';
  return undefined;
}
